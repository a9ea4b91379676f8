"""What files hold beside the values that agree: it is said, counts bit by bit, and whole dumps behind a dump do not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dumps.dumpmade import (
    FLOAT,
    dump2,
    message,
    nano,
    nano_tensor,
    one_output,
    op_output,
    put,
)
from dumps.dumpmade import number as field

from pytest_msdump.cli import main as msdump
from pytest_msdump.core.compare.opening import open_dump
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.report.json_report import read_json

DATA = Path(__file__).parents[1] / "data"
VALUES = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
RAW = VALUES.tobytes()
GE_FLOAT = 0
CONTAINERS = {
    "2.0": one_output(VALUES),
    "2.0, the data in its header": dump2(message(outputs=[op_output(FLOAT, (3, 4), 0, data=RAW)])),
    "nano": nano([], [nano_tensor("output", GE_FLOAT, (3, 4), 48)], RAW),
    "protobuf": message(outputs=[op_output(FLOAT, (3, 4), 0, data=RAW)], version="1.0"),
}
NAME = "Add.add_1.1.1.1600000000000001"


def compared(tmp_path: Path, *options: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and the records of left against right."""
    report = tmp_path / "report"
    code = msdump(["compare", str(tmp_path / "left"), str(tmp_path / "right"), "--report-dir", str(report), *options])
    return code, read_json(report / "results.json")["tensors"]


def judged_again(tmp_path: Path, profile: str) -> int:
    return msdump(["check", str(tmp_path / "report" / "results.json"), "--profile", profile])


@pytest.mark.parametrize("kind", CONTAINERS)
def test_bytes_behind_a_container_are_said_and_fail_bit_by_bit(tmp_path, kind):
    # An unknown field is what a protobuf message can hold behind its last known one.
    trailing = field(15, 1) if kind == "protobuf" else b"\0\0\0\0\0"
    put(tmp_path / "left", NAME, CONTAINERS[kind] + trailing)
    put(tmp_path / "right", NAME, CONTAINERS[kind])
    code, (record,) = compared(tmp_path)
    remark = {"code": "trailing_bytes", "parameters": {"side": "left", "bytes": len(trailing)}}
    assert (code, record["verdict"], record["equal"], record["file_remarks"]) == (0, "pass", True, [remark])
    (finding,) = record["findings"]
    assert f"the left file has {len(trailing)} bytes more than its header describes" in finding["sentence"]
    assert judged_again(tmp_path, "default") == 0
    assert judged_again(tmp_path, "bitwise") == 1
    code, (record,) = compared(tmp_path, "--profile", "bitwise")
    assert (code, record["verdict"], record["would_pass"]) == (1, "fail", {})
    shutil.copy(tmp_path / "right" / NAME, tmp_path / "left" / NAME)
    code, (record,) = compared(tmp_path, "--profile", "bitwise")
    assert (code, "file_remarks" in record) == (0, False)


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("times", [2, 3, 100])
def test_whole_containers_one_behind_the_other_are_an_error(tmp_path, kind, times):
    put(tmp_path / "left", NAME, CONTAINERS[kind] * times)
    put(tmp_path / "right", NAME, CONTAINERS[kind])
    code, records = compared(tmp_path)
    assert (code, {record["verdict"] for record in records}) == (1, {"error"})
    assert "holds several dumps" in records[0]["findings"][0]["sentence"]


@pytest.mark.parametrize("second", CONTAINERS)
def test_a_container_of_another_kind_behind_a_container_is_an_error(tmp_path, second):
    put(tmp_path, NAME, CONTAINERS["2.0"] + CONTAINERS[second])
    with pytest.raises(TensorFileError, match="holds several dumps"):
        open_dump(tmp_path).read("add_1")


@pytest.mark.parametrize("cut", [1, 9, 40])
def test_a_second_container_that_is_cut_off_is_trailing_bytes(tmp_path, cut):
    whole = CONTAINERS["2.0"]
    put(tmp_path, NAME, whole + whole[:-cut])
    (ref,) = open_dump(tmp_path).refs
    view = open_dump(tmp_path).open(ref.key.address)
    assert view.spec.trailing_bytes == len(whole) - cut
    np.testing.assert_array_equal(view.read(0, 12), VALUES.ravel())


def test_padding_that_the_header_counts_is_no_trailing_byte(tmp_path):
    header = message(outputs=[op_output(FLOAT, (3, 4), 64)])
    put(tmp_path, NAME, dump2(header, RAW, b"\0" * 16))
    assert open_dump(tmp_path).open("add_1").spec.trailing_bytes == 0


@pytest.mark.parametrize("stored", [(2, 4, 3, 3), (72,), (8, 9)])
def test_a_shape_that_the_graph_corrects_is_said_and_fails_bit_by_bit(tmp_path, stored):
    """MindSpore on CPU writes what Reshape puts out with the shape of its input; the run's graph has its own."""
    shutil.copytree(DATA / "training", tmp_path / "left")
    (tmp_path / "right").mkdir()
    (file,) = (tmp_path / "left").rglob("Reshape.Default_network-Loss_net-Cnn_Reshape-op0.*")
    values = np.load(file).reshape(2, 36)
    np.save(tmp_path / "right" / "flat.0.1600000000000001.npy", values)
    np.save(file, values.reshape(stored))
    suite = tmp_path / "msdump.toml"
    suite.write_text(
        '[msdump]\nleft = "left"\nright = "right"\n'
        '[[msdump.map]]\nleft = "Default/network-Loss/net-Cnn/Reshape-op0"\nright = "flat"\n'
    )
    options = ("--config", str(suite))
    code, (record,) = compared(tmp_path, *options)
    parameters = {"side": "left", "stored": list(stored), "used": [2, 36]}
    assert (code, record["verdict"], record["equal"]) == (0, "pass", True)
    assert record["file_remarks"] == [{"code": "shape_from_graph", "parameters": parameters}]
    assert f"has shape {stored}; it was compared in (2, 36)" in record["findings"][0]["sentence"]
    assert judged_again(tmp_path, "bitwise") == 1
    assert compared(tmp_path, *options, "--profile", "bitwise")[0] == 1
    np.save(file, values)
    code, (record,) = compared(tmp_path, *options, "--profile", "bitwise")
    assert (code, "file_remarks" in record) == (0, False)


@pytest.mark.parametrize(("left", "right"), [(np.float32, np.complex64), (np.complex64, np.int32)])
def test_a_real_tensor_against_a_complex_one_is_an_error_unless_a_rule_allows_it(tmp_path, left, right):
    for side, dtype in (("left", left), ("right", right)):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / f"{NAME.split('.')[1]}.0.1600000000000001.npy", VALUES.astype(dtype))
    code, (record,) = compared(tmp_path)
    assert (code, record["verdict"]) == (1, "error")
    assert 'complex = "allow"' in record["findings"][0]["sentence"]
    suite = tmp_path / "msdump.toml"
    rule = '[msdump]\nleft = "left"\nright = "right"\n[[msdump.rule]]\nmatch = "{}"\ncomplex = "{}"\n'
    for match, said, wanted in (("add*", "allow", 0), ("mul*", "allow", 1), ("*", "error", 1)):
        suite.write_text(rule.format(match, said))
        code, (record,) = compared(tmp_path, "--config", str(suite))
        assert code == wanted
    suite.write_text(rule.format("*", "allow"))
    assert compared(tmp_path, "--config", str(suite))[0] == 0
    assert judged_again(tmp_path, "default") == 1
    np.save(next((tmp_path / "left").iterdir()), (VALUES + 1).astype(left))
    assert compared(tmp_path, "--config", str(suite))[0] == 1


def bfloat16(values: np.ndarray) -> np.ndarray:
    """Rounded as bfloat16 is, by the bits of float32 alone."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


@pytest.fixture
def half_run(tmp_path: Path) -> Path:
    """A run in bfloat16 that was saved as float32, and its reference in float32."""
    values = np.random.default_rng(6).normal(size=(20, 30)).astype(np.float32)
    for side, saved in (("left", bfloat16(values)), ("right", values)):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "conv1.0.1600000000000001.npy", saved)
    return tmp_path


def suite_of(folder: Path, *lines: str) -> tuple[str, str]:
    (folder / "msdump.toml").write_text("\n".join(["[msdump]", 'left = "left"', 'right = "right"', *lines]) + "\n")
    return "--config", str(folder / "msdump.toml")


def test_bfloat16_in_float32_is_hinted_at_and_never_judged_so_unasked(half_run, capsys):
    code, (record,) = compared(half_run)
    assert (code, record["verdict"], record["judged_as"]) == (1, "fail", "float32")
    parameters = {"side": "left", "dtype": "float32", "values": "bfloat16"}
    assert record["file_remarks"] == [{"code": "coarser_values", "parameters": parameters}]
    printed = " ".join(capsys.readouterr().out.split())
    assert "the left file is float32, but all its values are bfloat16, but it was judged as float32" in printed
    assert "add dtype_hint = true under [msdump]" in printed
    assert compared(half_run, *suite_of(half_run, "dtype_hint = false"))[0] == 1


def test_with_the_hint_a_real_drift_still_fails(half_run):
    file = half_run / "left" / "conv1.0.1600000000000001.npy"
    np.save(file, bfloat16(np.load(file) * 1.2))
    assert compared(half_run, *suite_of(half_run, "dtype_hint = true"))[0] == 1


def test_the_hint_changes_nothing_of_other_tensors_and_profiles(half_run):
    hint = suite_of(half_run, "dtype_hint = true")
    assert compared(half_run, *hint, "--profile", "bitwise")[0] == 1
    file = half_run / "left" / "conv1.0.1600000000000001.npy"
    spoilt = np.load(file)
    spoilt[3, 4] = np.float32(0.1)
    np.save(file, spoilt)
    code, (record,) = compared(half_run, *hint)
    assert (code, record["judged_as"], "file_remarks" in record) == (1, "float32", False)


IR = """\
#IR entry      : @kernel_graph_0
# Total subgraphs: 1
# Total params: 0
subgraph attr:
subgraph @kernel_graph_0() {
  %0(equiv_y) = Conv2D(%p) {instance name: conv} primitive_attrs: {} cnode_attrs: {}
      : (<Tensor[Float32], (2, 19, 5, 7)>) -> (<Tensor[Float32], (2, 19, 5, 7)>)
      : (<Float32x{format}[const vector][{stored}]>) -> (<Float32x{format}[const vector][{stored}]>)
      : full_name_with_scope: (Default/conv-Conv2d/Conv2D-op1)
}
"""


def of_graph(folder: Path, values: np.ndarray, memory_format: str = "DefaultFormat", dtype: str = "") -> None:
    """A MindSpore dump of one file beside a graph that has float32 of shape (2, 19, 5, 7)."""
    graphs, run = folder / "rank_0" / "graphs", folder / "rank_0" / "Net" / "0" / "0"
    graphs.mkdir(parents=True)
    run.mkdir(parents=True)
    stored = ", ".join(map(str, values.shape))
    text = IR.replace("{format}", memory_format).replace("{stored}", stored)
    (graphs / "ms_output_trace_code_graph_0.ir").write_text(text)
    name = f"Conv2D.Default_conv-Conv2d_Conv2D-op1.0.0.1623124369613540.output.0.{memory_format}{dtype}.npy"
    np.save(run / name, values)


def of_reference(folder: Path, values: np.ndarray) -> None:
    folder.mkdir()
    np.save(folder / "Default_conv-Conv2d_Conv2D-op1.0.1600000000000001.npy", values)


WHOLE = np.arange(2 * 19 * 5 * 7, dtype=np.float32).reshape(2, 19, 5, 7) % 97


@pytest.mark.parametrize("dtype", ["float16", "int8", "float64"])
def test_where_a_graph_contradicts_a_header_of_a_name_without_dtype_the_header_is_followed(tmp_path, dtype, capsys):
    of_graph(tmp_path / "left", WHOLE.astype(dtype))
    of_reference(tmp_path / "right", WHOLE.astype(dtype))
    code, (record,) = compared(tmp_path, "--profile", "bitwise")
    about = {"side": "left", "graph": "ms_output_trace_code_graph_0.ir", "said": "float32", "held": dtype}
    assert (code, record["left"]["dtype"], record["file_remarks"]) == (
        0,
        dtype,
        [{"code": "not_as_in_graph", "parameters": about}],
    )
    assert judged_again(tmp_path, "bitwise") == 0
    (tmp_path / "right" / "Default_conv-Conv2d_Conv2D-op1.0.1600000000000001.npy").unlink()
    np.save(tmp_path / "right" / "Default_conv-Conv2d_Conv2D-op1.0.1600000000000001.npy", WHOLE.astype(dtype) + 8)
    assert compared(tmp_path)[0] == 1
    capsys.readouterr()
    assert msdump(["inspect", str(tmp_path / "left")]) == 0
    assert "1 tensor of another type than in the graph" in " ".join(capsys.readouterr().out.split())


def test_a_dtype_in_the_name_that_the_header_contradicts_stays_an_error(tmp_path):
    of_graph(tmp_path / "left", WHOLE.astype("float64"), dtype=".float32")
    of_reference(tmp_path / "right", WHOLE)
    code, (record,) = compared(tmp_path)
    assert (code, record["verdict"]) == (1, "error")
    assert "its name says float32, its header says float64" in record["findings"][0]["sentence"]


@pytest.mark.parametrize("names_dtype", [".float32", ""])
def test_a_shape_of_the_graph_that_a_device_format_cannot_hold_is_a_remark(tmp_path, names_dtype):
    """Of batch 4, where the graph says 2: the reference has the shape."""
    values = np.arange(4 * 19 * 5 * 7, dtype=np.float32).reshape(4, 19, 5, 7)
    padded = np.zeros((4, 32, 5, 7), np.float32)
    padded[:, :19] = values
    device = padded.reshape(4, 2, 16, 5, 7).transpose(0, 1, 3, 4, 2)
    of_graph(tmp_path / "left", device, "NC1HWC0", names_dtype)
    of_reference(tmp_path / "right", values)
    code, (record,) = compared(tmp_path)
    assert (code, record["equal"]) == (0, True)
    (remark,) = record["file_remarks"]
    assert (remark["code"], remark["parameters"]["graph"]) == ("not_as_in_graph", "ms_output_trace_code_graph_0.ir")
    assert remark["parameters"]["said"] == "(2, 19, 5, 7)"
