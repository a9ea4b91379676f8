"""A dump on object storage is the same dump: what is found in it, what its tensors hold, what comes of comparing it."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from outcomes import without_run
from plugin.suites import write_suite

from pytest_msdump import assert_dumps_close, open_dump
from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import as_path, index, open_view
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.report.json_report import read_json
from pytest_msdump.record import DumpWriter

DATA = Path(__file__).parents[1] / "data"
GOLDEN = DATA / "ascend_golden"
GENERATIONS = sorted(path for path in (DATA / "generations").iterdir() if path.is_dir())
DUMPS = [
    *GENERATIONS,
    *sorted((DATA / "hazards").iterdir()),
    *sorted((DATA / "run_facts").iterdir()),
    DATA / "training",
    DATA / "lenet" / "target",
    DATA / "lenet" / "reference",
    *(GOLDEN / case / "left" for case in ("a_fusion_nchw", "b5_broken_files", "d2_values_dump", "l_ffts", "m_nano")),
    *(GOLDEN / "h_overflow" / case for case in ("two", "old_aicore", "aicpu")),
    GOLDEN / "g2_pb_right" / "right",
    GOLDEN / "e_convert" / "left",
    # Archives, stored and compressed ones, and folders of plain files.
    *(DATA / name for name in ("safetensors/all.safetensors", "safetensors/values.npz", "torch/values.npz")),
    *(DATA / name for name in ("torch/dtypes.pt", "hooks/sglang_dumper", "hooks/debug_tree", "msprobe/gelu")),
    DATA / "bfloat16",
]


def told(value: object, root: Path | str) -> str:
    """What is known of a dump, as text, without where it is and what stands for a path."""
    text = repr(value).replace("PosixPath", "Path").replace("RemotePath", "Path")
    # The folder of a single file is above it.
    return text.replace(str(root), "ROOT").replace(str(root).rpartition("/")[0], "ABOVE")


def contents(ref, root: Path | str) -> str:
    """A digest of a tensor's elements, or why there are none."""
    try:
        with closing(open_view(ref)) as view:
            digest = hashlib.sha256(repr((view.spec, view.shape, view.dtype)).encode())
            # In another order of the axes, too, since that is read in another way.
            for one in (view, view.permuted(tuple(reversed(range(len(view.shape)))))):
                for block in one.blocks(4096):
                    digest.update(np.ascontiguousarray(block).tobytes())
            return digest.hexdigest()
    except (MsdumpError, ValueError) as error:
        return told(str(error), root)


@pytest.mark.parametrize("root", DUMPS, ids=lambda path: str(path.relative_to(DATA)))
def test_a_remote_dump_is_indexed_and_read_as_the_local_one(put, root):
    url = put(root)
    here, there = index(root), index(as_path(url))
    assert told(there, url) == told(here, root)
    assert len(here.refs) == len(there.refs)
    for local, remote in zip((*here.refs, *here.older), (*there.refs, *there.older), strict=True):
        assert contents(remote, url) == contents(local, root), local.source.path


def test_the_dumps_above_hold_tensors_of_every_reader_that_reads_folders():
    found = {index(root).reader for root in DUMPS}
    assert found >= {"mindspore", "npy-folder", "ascend", "converted"}, found


@pytest.mark.parametrize("below", ["rank_0", "rank_0/Net", "rank_0/Net/0", "rank_0/Net/0/0"])
def test_a_folder_further_down_finds_what_its_rank_tells(put, below):
    root = DATA / "training"
    url = put(root)
    here, there = index(root / below), index(as_path(f"{url}/{below}"))
    assert here.graphs
    assert here.refs[0].place is not None
    assert told(there, url) == told(here, root)


def test_what_the_folders_of_a_dump_say_is_read_below_a_url_as_well(put, tmp_path):
    for count in (0, 1):
        folder = tmp_path / f"d/4/20260131235959/2/resnet/7/{count}"
        folder.mkdir(parents=True)
        np.save(folder / f"Conv2D.conv1.3.1.{1700000000000000 + count}.output.0.npy", np.ones(3))
    url = put(tmp_path / "d")
    there = index(as_path(url))
    assert [(ref.key.op.at.iteration, ref.key.op.at.occurrence) for ref in there.refs] == [(4, 0), (4, 1)]
    assert told(there, url) == told(index(tmp_path / "d"), tmp_path / "d")


@pytest.mark.parametrize("iteration", [0, 3])
def test_a_single_file_finds_the_manifest_that_tells_of_it(put, tmp_path, iteration):
    said = {"framework": "torch", "version": "2.13.0", "device": "cpu", "iterations": True}
    with DumpWriter(tmp_path / "d", **said) as writer:
        writer.write("net/conv.1", np.ones((2, 2), "float32"), op_type="Conv2d", iteration=iteration)
    file = next((tmp_path / "d").rglob("*.npy"))
    url = put(tmp_path / "d")
    here, there = index(file), index(as_path(f"{url}/{file.relative_to(tmp_path / 'd').as_posix()}"))
    assert there.refs[0].key.op.label == "net/conv.1"
    assert told(there, url) == told(here, tmp_path / "d")


def ran(*words: object) -> int:
    return main(["compare", *map(str, words), "--report-dir", "out", "--report", "json,csv,md,html"])


CASES = {
    "lenet": (DATA / "lenet/target_bad", DATA / "lenet/reference", ["--config", "suite.toml"]),
    "fusion": (
        GOLDEN / "a_fusion_nchw/left",
        GOLDEN / "a_fusion_nchw/right",
        ["-f", GOLDEN / "a_fusion_nchw/fusion.json"],
    ),
    "broken": (GOLDEN / "b5_broken_files/left", GOLDEN / "b5_broken_files/right", []),
    "two runs of one network": (DATA / "lenet/target_bad2", DATA / "lenet/target", ["--spread=failing"]),
}


@pytest.mark.parametrize("case", CASES)
def test_reports_are_the_same_but_for_the_urls(put, tmp_path, monkeypatch, capsys, case):
    left, right, words = CASES[case]
    monkeypatch.chdir(tmp_path)
    write_suite(tmp_path / "suite.toml", DATA / "lenet", "target_bad")
    urls = put(left), put(right)
    seen = []
    for sides in ((left, right), urls):
        code = ran(*sides, *words)
        written = sorted((tmp_path / "out").glob("*.*"))
        files = {file.name: without_run(file.read_bytes()).decode() for file in written}
        assert set(files) >= {"results.json", "ops.csv", "summary.md", "index.html"}
        out = capsys.readouterr().out
        assert str(sides[0]) in "".join(out.split())
        for side, name in zip(sides, ("LEFT", "RIGHT"), strict=True):
            files = {file: text.replace(str(side), name) for file, text in files.items()}
        # The page is called by the last part of the sides' names, which is the same.
        seen.append((code, files))
        assert "/memory:/" not in out + "".join(files.values())
    assert seen[0][0] == seen[1][0]
    for name, text in seen[0][1].items():
        assert seen[1][1][name] == text, name
    assert json.loads(seen[0][1]["results.json"])["counts"]["fail" if case != "broken" else "error"]


def test_a_suite_file_names_urls(put, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    left, right = put(DATA / "lenet/target_bad"), put(DATA / "lenet/reference")
    write_suite(tmp_path / "msdump.toml", DATA / "lenet", "target_bad")
    text = (tmp_path / "msdump.toml").read_text()
    assert main(["compare"]) == 1
    here = read_json(tmp_path / "msdump-report/results.json")
    text = text.replace(f"left = '{DATA}/lenet/target_bad'", f"left = {{ path = '{left}', rank = 0 }}")
    (tmp_path / "msdump.toml").write_text(text.replace(f"'{DATA}/lenet/reference'", f"'{right}'"))
    assert main(["compare"]) == 1
    there = read_json(tmp_path / "msdump-report/results.json")
    assert (there["left"]["directory"], there["right"]["directory"]) == (left, right)
    assert there["tensors"] == here["tensors"]
    assert there["counts"] == here["counts"] | {"pass": here["counts"]["pass"]}


def test_what_else_takes_a_dump_takes_its_url(put, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = DATA / "hazards/bf16"
    url = put(folder)
    one = next(folder.rglob("*.npy")).relative_to(folder).as_posix()
    for words in (["inspect"], ["inspect", "--check"], ["overflow"], ["match", None]):
        seen = []
        for root in (str(folder), url):
            code = main([word or root for word in [*words, root]])
            seen.append((code, capsys.readouterr().out.replace(root, "ROOT")))
        # A longer name breaks a line elsewhere.
        assert (seen[0][0], seen[0][1].split()) == (seen[1][0], seen[1][1].split()), words
    fresh = put(folder)
    assert main(["inspect", f"{fresh}/{one}"]) == 0
    assert "an npy file" in capsys.readouterr().out
    assert main(["convert", put(folder), "--out", "converted"]) == 0
    assert main(["compare", "converted", str(folder), "--profile=bitwise"]) == 0
    assert main(["convert", put(folder), put(DATA / "hazards/longname"), "--out", "two"]) == 0
    assert sorted(path.name for path in Path("two").iterdir()) == ["bf16", "longname"]


def test_the_functions_for_tests_take_urls_and_dumps_opened_from_urls(put):
    url = put(DATA / "lenet/target")
    dump = open_dump(url)
    address = next(iter(dump))
    np.testing.assert_array_equal(dump.read(address), open_dump(DATA / "lenet/target").read(address))
    assert_dumps_close(dump, url, profile="bitwise")
    assert_dumps_close(dump.dump.root, DATA / "lenet/target", profile="bitwise")
    with pytest.raises(AssertionError, match=f"left  = under test +{url}"):
        assert_dumps_close(url, put(DATA / "lenet/target_bad"))
