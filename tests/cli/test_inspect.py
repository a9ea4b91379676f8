"""`msdump inspect`: dumps, files, lines and back, checks, statistics, text files; as text and as JSON."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore

from pytest_msdump import cli
from pytest_msdump.capabilities.convert import one_file
from pytest_msdump.core.compare.opening import index

DATA = Path(__file__).parents[1] / "data"
LENET = DATA / "lenet" / "target"
GRAPH = DATA / "inspect" / "ms_output_trace_code_graph_0.ir"
GRAPHS = DATA / "ir" / "lenet_train"
CONV2 = "Default/conv2-Conv2d/Conv2D-op0"
PLACE = "/home/modeler/data/gen/ms_side.py:36"


def main(*arguments: object) -> int:
    return cli.main(["inspect", *map(str, arguments)])


def told(capsys, *arguments, code=0):
    assert main(*arguments) == code
    return capsys.readouterr().out


def entry(capsys, *arguments, code=0):
    return json.loads(told(capsys, *arguments, "--json", code=code))


def refused(capsys, *arguments):
    assert main(*arguments) == 4
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("msdump: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    """Whatever terminal the tests run in."""
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(params=[80, 120])
def width(request, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(request.param))
    return request.param


@pytest.fixture
def run_with_graph(tmp_path):
    """The real run of a small network, with its graphs beside it."""
    root = tmp_path / "run"
    shutil.copytree(LENET, root)
    (root / "rank_0" / "graphs").mkdir()
    shutil.copy(GRAPH, root / "rank_0" / "graphs")
    return root


def file_of(root, pattern):
    (found,) = root.rglob(pattern)
    return found


# A dump.


def test_a_dump_is_told_by_totals_coordinates_and_operators(capsys, width):
    lines = told(capsys, LENET).splitlines()
    assert lines[0] == f"msdump inspect: {LENET} (reader mindspore)"
    refs = index(LENET).refs
    files = {ref.source.path for ref in refs}
    size = sum(path.stat().st_size for path in files)
    operators = {ref.key.op for ref in refs}
    assert (
        lines[1] == f"  {len(refs)} tensors of {len(operators)} operators; {size / 1024:.1f} KiB in {len(files)} files"
    )
    assert "  rank          0" in lines
    assert "  net           Lenet" in lines
    assert max(map(len, lines[1:])) <= width
    (place,) = (number for number, line in enumerate(lines) if CONV2 in line)
    row = lines[place] if width == 120 else lines[place - 1]
    assert "Conv2D" in row
    assert "float32 (2, 12, 6, 6)" in row


def test_what_is_odd_is_said(tmp_path, capsys):
    for iteration in range(3):
        write_mindspore(tmp_path, [("Mul", "Default/a", "output", 0, [1.0])], iteration=iteration)
    write_mindspore(
        tmp_path,
        [("Mul", "Default/b", "output", 0, np.zeros((0, 2))), ("Mul", "Default/c", "output", 0, [2.0])],
        iteration=1,
    )
    file_of(tmp_path, "Mul.Default_c.*").write_bytes(b"")
    (tmp_path / "rank_0" / "notes.txt").write_text("mine")
    text = told(capsys, tmp_path, code=1)
    assert "1 file that no reader knows: rank_0/notes.txt" in text
    assert "1 tensor without elements: Default/b:output:0" in text
    assert "2 operators in some iterations only: Default/b (not in 0, 2), Default/c (not in 0, 2)" in text
    assert "Default/c:output:0 cannot be read" in text
    assert "  iteration     0-2" in text
    found = entry(capsys, tmp_path, code=1)
    assert [one["address"] for one in found["unreadable"]] == ["Default/c:output:0"]
    assert found["unexplained"] == ["rank_0/notes.txt"]


# A file, and the way back.


def test_a_file_is_told_with_numbers_a_histogram_and_the_way_back(run_with_graph, capsys, width):
    path = file_of(run_with_graph, "Conv2D.*conv2*.output.0.*")
    values = np.load(path)
    lines = told(capsys, path).splitlines()
    assert f"  {CONV2}  (Conv2D)" in lines
    assert "  rank 0, net Lenet, graph 0, iteration 0" in lines
    assert "output:0  float32 (2, 12, 6, 6), DefaultFormat" in lines
    assert f"  range {values.min():.6g} to {values.max():.6g}" in "\n".join(lines)
    bars = [line for line in lines if "|" in line]
    assert [int(line.rpartition("|")[2]) for line in bars] == list(np.histogram(values, 10)[0])
    code = "x = self.pool2(self.relu2(self.conv2(x)))"
    assert (f"  {PLACE}  {code}" in lines) is (width == 120)
    assert (f"  {PLACE}\n      {code}" in "\n".join(lines)) is (width == 80)
    assert "      from Default/pool1-MaxPool2d/MaxPool-op0 output 0" in lines
    assert "      to   Default/conv2-Conv2d/BiasAdd-op0 input 0" in lines
    assert lines.index("calls, outermost first") < len(lines) - 3
    assert max(map(len, bars)) <= width


ASCEND = DATA / "ascend_golden"
CONV1 = ASCEND / "a_fusion_nchw" / "left" / "Conv2D.conv1conv1_bnconv1_relu.3.1.1600000000000003"


def test_a_dump_file_is_told_with_its_header(capsys, width):
    lines = told(capsys, CONV1).splitlines()
    assert "  26.9 KiB; a dump file in the format of Ascend; 3 tensors (reader ascend)" in lines
    words = " ".join(" ".join(lines).split())
    assert "header: container 2.0, version 2.0, dump time 1600000000000000, op name conv1conv1/bnconv1/relu " in words
    assert "header: FLOAT16 (2, 2, 5, 7, 16) NC1HWC0, original shape (2, 19, 5, 7), 4480 bytes from byte 131" in words
    assert max(map(len, lines[1:])) <= width
    found = entry(capsys, CONV1)
    assert (found["header"]["container"], found["header"]["dump_time"]) == ("2.0", 1600000000000000)
    # The data of all tensors lie behind one another, and the last one ends where the file does.
    headers = [tensor["header"] for tensor in found["tensors"]]
    assert [header["bytes"] for header in headers] == [4480, 18432, 4480]
    begins = [header["first_byte"] for header in headers]
    assert begins == [131, 131 + 4480, 131 + 4480 + 18432]
    assert begins[-1] + 4480 == CONV1.stat().st_size == found["bytes"]
    assert [header["original_shape"] for header in headers] == [[2, 19, 5, 7], [19, 19, 3, 3], [2, 19, 5, 7]]


def test_a_dump_file_that_is_cut_short_still_tells_its_header(capsys):
    path = ASCEND / "b5_broken_files" / "left" / "Add.trunc.6.3.1600000000000002"
    assert "  header: FLOAT16 (37, 21) ND, 1554 bytes from byte 44\n" in told(capsys, path, code=1)
    empty = ASCEND / "b5_broken_files" / "left" / "Add.empty.7.3.1600000000000003"
    assert entry(capsys, empty, code=1)["header"] is None
    assert "header" not in told(capsys, empty, code=1)


def test_nan_inf_and_saturated_elements_are_counted_and_strict_json(tmp_path, capsys):
    path = tmp_path / "a.npy"
    np.save(path, np.array([1.0, np.nan, np.inf, -np.inf, 65504.0, 0.0], np.float16))
    text = told(capsys, path)
    assert "6 elements: 1 zero, 2 above 0, 1 NaN, 1 -Inf, 1 +Inf, 1 at the type's maximum" in text
    assert "first NaN, Inf or saturated element at [1]" in text
    (tensor,) = entry(capsys, path)["tensors"]
    assert (tensor["statistics"]["l2_norm"], tensor["first_nonfinite"], tensor["saturated"]) == ("NaN", [1], 1)


@pytest.mark.parametrize("values", [np.float32(2.5), np.zeros((0, 3)), np.array([1 + 1j]), np.array([True, False])])
def test_every_kind_of_tensor_is_told(tmp_path, capsys, values):
    np.save(tmp_path / "a.npy", values)
    text = told(capsys, tmp_path / "a.npy")
    assert f"{values.size} element" in text
    assert str(values.shape) in text


def test_a_file_that_is_cut_short_is_told_and_fails(run_with_graph, capsys):
    path = file_of(run_with_graph, "Conv2D.*conv2*.output.0.*")
    path.write_bytes(path.read_bytes()[:-10])
    text = told(capsys, path, code=1)
    assert "output:0  cannot be read" in text
    assert entry(capsys, path, code=1)["tensors"][0]["problem"]


def test_kernel_arguments_and_attributes_are_told(run_with_graph, capsys):
    path = file_of(run_with_graph, "Conv2D.*conv2*.output.0.*")
    saved = path.with_name("Conv2D.Default_conv2-Conv2d_Conv2D-op0.json")
    saved.write_text(json.dumps({"pad_mode": "valid", "stride": "(1, 1)"}))
    found = entry(capsys, path)
    assert found["kernel_args"] == {
        "file": saved.name,
        "values": {"pad_mode": "valid", "stride": "(1, 1)"},
        "problem": None,
    }
    text = told(capsys, path)
    assert f"  kernel arguments ({saved.name})\n      pad_mode  valid\n      stride    (1, 1)\n" in text
    on_the_line = entry(capsys, run_with_graph, "--line", "ms_side.py:36")["operators"]
    assert [operator["kernel_args"] is None for operator in on_the_line] == [False, True, True, True]
    assert "      pad_mode  valid\n" in told(capsys, run_with_graph, "--line", "ms_side.py:36")
    attributes = found["operator"]["attributes"]
    assert attributes
    assert all(name in text for name in attributes)
    matmul = told(capsys, file_of(run_with_graph, "MatMul.*fc1*.output.0.*"))
    assert matmul.count("      from the constant Bool(") == 2
    saved.write_text("[")
    assert "is not a JSON object" in entry(capsys, path)["kernel_args"]["problem"]
    assert "is not a JSON object" in told(capsys, path)


def test_a_graph_is_listed(capsys):
    for suffix in ("ir", "pb"):
        path = GRAPHS / f"ms_output_trace_code_graph_0.{suffix}"
        found = entry(capsys, path)
        assert (found["kind"], found["is_final"]) == ("graph", True)
        text = told(capsys, path, "--all")
        assert all(operator["name"] in text for operator in found["operators"])


def test_an_overflow_file_is_decoded(capsys):
    (path,) = (DATA / "ascend_golden" / "h_overflow" / "aicpu").glob("*pdebug*")
    assert "AICPU: task 12, stream 3: status 7" in told(capsys, path)
    (unit,) = entry(capsys, path)["entries"]
    assert (unit["unit"], unit["task"], unit["status"]) == ("AICPU", 12, [7])


HEAD = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value"


def run_with_statistics(root, rows):
    write_mindspore(root, [("Mul", "Default/a", "output", 0, np.array([1.0, -2.0], np.float32))], start=100)
    table = root / "rank_0" / "Net" / "0" / "0" / "statistic.csv"
    table.write_text("\n".join([HEAD, *rows, ""]))
    return table


GOOD = 'Mul,Default_a,0,0,100,output,0,8,float32,"(2)",1,-2'


def test_a_table_of_statistics_is_listed(tmp_path, capsys):
    table = run_with_statistics(tmp_path, [GOOD])
    assert "Default_a:output:0  float32 (2,)\n    maximum 1, minimum -2" in told(capsys, table)
    assert entry(capsys, table)["rows"][0]["statistics"] == {"maximum": 1, "minimum": -2}


def test_verify_holds_tensors_against_their_table(tmp_path, capsys):
    table = run_with_statistics(tmp_path, [GOOD])
    assert "all of them agree" in told(capsys, tmp_path, "--verify")
    table.write_text(table.read_text().replace(",1,-2", ",1,-2.5"))
    text = told(capsys, tmp_path, "--verify", code=1)
    assert "DIFFERS  Default/a:output:0" in text
    assert "minimum: -2.5 in the table, -2.0 in the tensor" in text
    assert "statistic.csv, line 2" in text
    found = entry(capsys, tmp_path, "--verify", code=1)
    assert (found["tensors"], found["clean"]) == (1, False)
    assert [(one["what"], one["saved"], one["computed"]) for one in found["differences"]] == [("minimum", -2.5, -2.0)]


def test_verify_of_a_dump_without_statistics_is_no_success(capsys):
    assert "nothing was verified" in told(capsys, LENET, "--verify", code=1)


def test_tensors_of_which_only_statistics_exist_are_surveyed(tmp_path, capsys):
    table = run_with_statistics(tmp_path, [GOOD, GOOD.replace("Default_a", "Default_b")])
    assert entry(capsys, tmp_path)["memory_formats"] == {"DefaultFormat": 1, "statistics only": 1}
    file_of(tmp_path, "*.npy").unlink()
    found = entry(capsys, tmp_path)
    assert (found["tensors"], found["unreadable"]) == (2, [])
    assert table.is_file()


# A line.


def test_a_line_is_told_with_operators_shapes_neighbours_and_files(run_with_graph, capsys, width):
    text = told(capsys, run_with_graph, "--line", "ms_side.py:36")
    lines = text.splitlines()
    assert lines[1] == "  ms_side.py:36 made 4 operators"
    assert [line for line in lines if line.startswith("Default/")] == [
        f"{CONV2}  (Conv2D)",
        "Default/conv2-Conv2d/BiasAdd-op0  (BiasAdd)",
        "Default/relu2-ReLU/ReLU-op0  (ReLU)",
        "Default/pool2-MaxPool2d/MaxPool-op0  (MaxPool)",
    ]
    assert "  op 5 of 14 in ms_output_trace_code_graph_0.ir (rank 0, graph 0)" in lines
    assert "  output 0  host and device float32 (2, 12, 6, 6) DefaultFormat" in lines
    assert "      from conv2.weight (a weight or an input of the network)" in lines
    files = [run_with_graph / line.strip() for line in lines if line.endswith(".npy")]
    wanted = [ref.source.path for ref in index(run_with_graph).refs if ref.line and ref.line.line == 36]
    assert files == wanted
    assert max(len(line) for line in lines[1:] if not line.endswith(".npy")) <= width


# Checks.


def test_a_hit_exits_1_and_names_line_and_threshold(run_with_graph, capsys):
    path = file_of(run_with_graph, "Conv2D.*conv2*.output.0.*")
    values = np.load(path)
    values[0, 1, 2, 3] = np.nan
    np.save(path, values)
    lines = told(capsys, run_with_graph, "--check", code=1).splitlines()
    assert f"HIT  {CONV2}  (Conv2D)" in lines
    assert f"     {PLACE}  x = self.pool2(self.relu2(self.conv2(x)))" in lines
    assert "               1 NaN of 864 elements; first at [0, 1, 2, 3]; in iteration 0" in lines
    (hit,) = entry(capsys, run_with_graph, "--check", code=1)["hits"]
    assert (hit["check"], hit["value"], hit["where"], hit["source"]["line"]) == ("tensor_overflow", 1, [0, 1, 2, 3], 36)


# Text files.


def test_text_files_are_those_of_numpy_savetxt(tmp_path, capsys):
    for name, array in {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3) / 3,
        "b": np.array([[True], [False]]),
        "c": np.array([1 - 2j, complex(np.nan, np.inf)]),
        "d": np.array(7, np.int64),
        "e": np.zeros((0, 2)),
        "f": np.array([2**64 - 1, 2**53 + 1, 0], np.uint64),
        "g": np.array([np.nan, -np.inf, np.inf, -0.0, 5e-324]),
        "h": np.array([complex(0.0, -0.0), complex(-np.inf, np.nan)], np.complex64),
        "i": np.linspace(-1, 1, 2**17 + 3, dtype=np.float16),
    }.items():
        np.save(tmp_path / f"{name}.1.2.npy", array)
        np.savetxt(tmp_path / "expected.txt", array.reshape(-1))
        out = told(capsys, tmp_path / f"{name}.1.2.npy", "--save-txt", tmp_path / "out")
        written = tmp_path / "out" / f"{name}.1.2.txt"
        assert out == f"{written}\n"
        assert written.read_bytes() == (tmp_path / "expected.txt").read_bytes()


def test_a_full_disk_leaves_no_text(tmp_path, capsys, monkeypatch):
    def full(*_: object, **_named: object) -> None:
        raise OSError(28, "No space left on device")

    np.save(tmp_path / "a.npy", np.ones(4))
    monkeypatch.setattr(one_file, "text_bytes", full)
    assert main(tmp_path / "a.npy", "--save-txt", tmp_path / "out") == 1
    assert list((tmp_path / "out").iterdir()) == []
    assert "No space left" in capsys.readouterr().err


# What is refused.


def test_what_cannot_be_meant_is_one_line_and_4(tmp_path, capsys):
    assert "no such directory or file" in refused(capsys, tmp_path / "nothing")
    assert "--bins 0" in refused(capsys, LENET, "--bins", 0)
    assert "--check" in refused(capsys, LENET, "--check-set", "tensor_overflow=off")
    assert "--save-txt" in refused(capsys, LENET, "--txt-header")
    assert "give one tensor file" in refused(capsys, LENET, "--save-txt", tmp_path)
    assert "not allowed with" in refused(capsys, LENET, "--check", "--verify")
    assert "--root" in refused(capsys, LENET, "--root", LENET)
    assert "is empty" in refused(capsys, "")
    (tmp_path / "a.xyz").write_text("?")
    assert "no known format has names like" in refused(capsys, tmp_path / "a.xyz")
    (tmp_path / "a.ir").write_text("?")
    assert "a.ir" in refused(capsys, tmp_path / "a.ir")


def test_every_file_of_a_line_is_listed_when_all_is_wanted(run_with_graph, capsys):
    for iteration in range(1, 4):
        shutil.copytree(run_with_graph / "rank_0/Lenet/0/0", run_with_graph / f"rank_0/Lenet/0/{iteration}")
    files = entry(capsys, run_with_graph, "--line", "ms_side.py:36")["operators"][1]["tensors"]
    assert len(files) == 16
    text = told(capsys, run_with_graph, "--line", "ms_side.py:36")
    assert text.count("BiasAdd.Default_conv2") == 12
    assert "  and 4 more; --all lists them all" in text
    assert told(capsys, run_with_graph, "--line", "ms_side.py:36", "--all").count("BiasAdd.Default_conv2") == 16
