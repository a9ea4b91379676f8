import os
from pathlib import Path

import numpy as np
import pytest
from dumps.dumpmade import FLOAT, TIME, dump2, message, one_output, op_output, put
from dumps.reading import elements

from pytest_msdump.core.dumps.base import index_dump as index
from pytest_msdump.core.errors import TensorFileError, UnknownDumpFormatError
from pytest_msdump.core.model.tensor import Coordinates

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"
ONES = np.ones(3, "<f4")


def addresses(dump):
    return [(ref.key.address, ref.key.op.at.occurrence) for ref in dump.refs]


def reason_of(ref):
    """Why a tensor cannot be read; empty when it can."""
    try:
        elements(ref)
    except TensorFileError as error:
        return str(error)
    return ""


def test_index_reads_headers_and_no_data(tmp_path, monkeypatch):
    path = put(tmp_path, f"Add.op.1.1.{TIME}", one_output(np.ones(100_000, "<f4")))
    read = []
    preadv = os.preadv

    def counting(descriptor, targets, offset):
        read.append((offset, sum(map(len, targets))))
        return preadv(descriptor, targets, offset)

    monkeypatch.setattr(os, "preadv", counting)
    assert index(tmp_path).refs[0].spec.shape == (100_000,)
    # One short read for a header of any usual size.
    assert read == [(0, 4096)]
    assert path.stat().st_size > 4096


@pytest.mark.parametrize(("header_name", "label"), [("a/b", "a/b"), ("a_b", "a_b"), ("other", "a_b"), ("", "a_b")])
def test_the_headers_name_is_the_true_one_when_it_is_mangled_to_the_files(tmp_path, header_name, label):
    put(tmp_path, f"Add.a_b.1.1.{TIME}", one_output(ONES, op_name=header_name))
    assert index(tmp_path).refs[0].key.op.label == label


def test_an_unreadable_file_is_one_output_whose_opening_tells_why():
    dump = index(GOLDEN / "b5_broken_files" / "left")
    reasons = {ref.key.op.name: reason for ref in dump.refs if (reason := reason_of(ref))}
    assert {ref.key.op.name for ref in dump.refs} == {"ok", "trunc", "empty", "shortdata", "int4", "zz_last"}
    assert {"ok", "zz_last"}.isdisjoint(reasons)
    assert "is empty (0 bytes)" in reasons["empty"]
    assert "cut off, 755 of its 1554 bytes" in reasons["trunc"]
    assert "needs 1554 bytes, the header gives it 100" in reasons["shortdata"]
    assert dump.notes == ("1 file of which the header cannot be read, e.g. Add.empty.7.3.1600000000000003",)


def test_names_of_every_kind_are_read_and_the_rest_is_told():
    dump = index(GOLDEN / "b2_names" / "left")
    assert {ref.key.op.label for ref in dump.refs} == {
        "a_very_long_name",
        "bad name",
        "ffts_like",
        "no_stream",
        "short_ts",
        "with_stream",
    }
    assert dump.unexplained == (Path("nodots"),)


WHOLE = one_output(ONES)
SPACES = dump2(message(outputs=[op_output(FLOAT, (1,), 4)], buffers=[8]), bytes(12))
MAPPING = f"123456789,Add.{'x' * 300}.1.1.{TIME}\nAdd.op.1.1.{TIME},Add.never.1.1.{TIME}"
# What lies beside the dump of an operator: names and contents; further operators, unexplained files, and a note.
BESIDE = {
    "a number that no mapping explains": (
        {"123456789": WHOLE, "mapping.csv": b"nothing\n999,Add.x.1.1.1600000000000001\n"}, [], ["123456789"],
        "1 file with a number for a name that no mapping.csv explains, e.g. 123456789",
    ),
    "a number that a mapping explains": (
        {"123456789": WHOLE, "mapping.csv": MAPPING.encode()}, ["x" * 300], [], "",
    ),
    "an odd task type": (
        {f"Add.odd.1.1.{TIME}.9.1.0.0": WHOLE}, [], [f"Add.odd.1.1.{TIME}.9.1.0.0"], "a task type other than 0 to 4",
    ),
    "files of other formats": (
        {f"conv1.0.{TIME}.npy": b"", f"conv1.0.{TIME}.pb": b""}, [], [f"conv1.0.{TIME}.npy", f"conv1.0.{TIME}.pb"],
        "2 files of another dump format beside Ascend dumps",
    ),
    "an overflow record": ({f"Opdebug.Node_OpDebug.1.1.{TIME}": WHOLE}, [], [], "overflow check"),
    "buffers": ({f"Add.more.1.1.{TIME}": SPACES}, ["more"], [], "buffers or workspaces"),
    "trailing bytes": ({f"Add.more.1.1.{TIME}": WHOLE + b"more"}, ["more"], [], "more bytes than the header describes"),
    "no tensor": ({f"Add.more.1.1.{TIME}": dump2(message(op_name="more"))}, [], [], "without a tensor"),
    "a place where no dump belongs": (
        {f"some/where/Add.lost.1.1.{TIME}": WHOLE}, [], [f"some/where/Add.lost.1.1.{TIME}"], "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("law", BESIDE)
def test_what_lies_beside_a_dump_is_read_or_told(tmp_path, law):
    files, more, unexplained, note = BESIDE[law]
    for name, content in {f"Add.op.1.1.{TIME}": WHOLE, **files}.items():
        put((tmp_path / name).parent, Path(name).name, content)
    dump = index(tmp_path)
    assert (dump.reader, addresses(dump)) == ("ascend", [(f"{op}:output:0", 0) for op in sorted(["op", *more])])
    assert [path.as_posix() for path in dump.unexplained] == unexplained
    assert note in " | ".join(dump.notes)
    assert len(dump.notes) == bool(note)


def test_two_files_of_one_operator_are_two_occurrences_never_the_newest_alone():
    dump = index(GOLDEN / "b_npu_vs_npu" / "left")
    assert [one for one in addresses(dump) if one[0].startswith("two_iters")] == [
        ("two_iters:output:0", 0),
        ("two_iters:output:0", 1),
    ]


def test_one_file_is_a_dump_of_its_tensors():
    dump = index(GOLDEN / "m_nano" / "left" / "Add.nano_op.1.2.1600000000000001")
    assert [ref.key.address for ref in dump.refs] == ["nano_op:input:0", "nano_op:output:0"]
    assert dump.refs[0].key.op.at == Coordinates()


@pytest.mark.parametrize("name", ["libx.so.1.2.3", "notes.txt", "a.b.c", "123"])
def test_other_folders_are_not_taken_for_dumps(tmp_path, name):
    put(tmp_path, name, b"text")
    with pytest.raises(UnknownDumpFormatError, match=rf"names like '{name}'"):
        index(tmp_path)


GOLDEN_FILES = sorted(
    path
    for side in ("left", "right")
    for path in GOLDEN.glob(f"*/{side}/*")
    if path.suffix not in (".npy", ".csv", ".txt", ".pb") and path.name != "nodots"
)


def test_every_golden_dump_file_is_indexed():
    indexed = {
        piece
        for root in {path.parent for path in GOLDEN_FILES}
        for ref in index(root).refs
        for piece in (ref.source.path, *ref.source.pieces)
    }
    assert set(GOLDEN_FILES) == indexed
    assert len(GOLDEN_FILES) > 130
