"""Logs that PyTorch's DebugMode wrote, held to the tensors that were hashed, and damaged ones."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.capabilities.statistics.tensor_statistics import statistics_of
from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import ArrayView, index
from pytest_msdump.core.errors import UnknownDumpFormatError

DATA = Path(__file__).parent.parent / "data" / "debug_mode"
# The live lane has no such PyTorch: it would need the libraries of CUDA, 5 GB.
PYTHON = os.environ.get("MSDUMP_DEBUG_MODE_PYTHON", "")
PROGRAM = (DATA / "make.py").read_text().splitlines()
VALUES = np.load(DATA / "values.npz")
RUN, WRONG, NORM, XOR = (DATA / f"{name}.json" for name in ("run", "wrong", "norm", "xor"))


def tensors(root):
    """By rank, address and occurrence."""
    return {(ref.key.op.at.rank, ref.key.address, ref.key.op.at.occurrence): ref for ref in index(root).refs}


def log_of(path):
    return json.loads(path.read_text())


def line_of(text):
    return next(number for number, line in enumerate(PROGRAM, 1) if text in line)


# -- What was hashed -------------------------------------------------------------------------------------------------


def held_to_tensors(folder, name):
    """Return the types of the tensors that are hashed in a log, all of them as DebugMode saw them."""
    seen, checked = np.load(folder / "values.npz"), set()
    for ref in index(folder / f"{name}.json").refs:
        values = seen.get(f"{name}/{ref.place}/{ref.key.slot}")
        if ref.key.io == "output" and values is not None:
            found = ref.statistics.values
            assert (ref.spec.shape, found["count"]) == (values.shape, values.size)
            wide = values.astype({"f": "f8", "c": "c16"}.get(values.dtype.kind, "i8"))
            np.testing.assert_allclose(found["l1_norm"], np.abs(wide).sum(), rtol=1e-12)
            words = np.frombuffer(wide.tobytes(), "u8")
            assert found["xor64_wide"] == f"{np.bitwise_xor.reduce(words, initial=0):016x}"
            if not ref.spec.dtype.startswith(("bfloat16", "float8")):
                assert np.dtype(ref.spec.dtype) == values.dtype
            checked.add(ref.spec.dtype)
    return checked


@pytest.mark.parametrize(
    ("name", "dtypes"), [("run", {"float32", "int64"}), ("types", {"bfloat16", "float8_e5m2", "bool", "complex128"})]
)
def test_hashes_types_and_shapes_are_those_of_the_tensors(name, dtypes):
    assert held_to_tensors(DATA, name) >= dtypes


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "u1", "?", "c8"])
def test_the_xor_of_a_tensor_is_the_one_that_pytorch_logs(dtype):
    checked = 0
    for ref in index(DATA / "types.json").refs:
        values = VALUES[f"types/{ref.place}/{ref.key.slot}"]
        if values.dtype == np.dtype(dtype):
            made = statistics_of(ArrayView(values), digests=["xor64_wide"], block_elements=4)
            assert made["xor64_wide"] == ref.statistics.values["xor64_wide"]
            checked += 1
    assert checked


def test_operations_are_named_by_their_modules_in_the_order_of_the_log():
    refs = index(RUN).refs
    assert [ref.place for ref in refs] == sorted(ref.place for ref in refs)
    names = list(dict.fromkeys(ref.key.op.label for ref in refs))
    assert names[:6] == [
        "Net.layers.0.fc/aten.t", "Net.layers.0.fc/aten.addmm", "Net.layers.0/aten.tanh",
        "Net.layers.0/aten.mul.Tensor", "Net.layers.1.fc/aten.t", "Net.layers.1.fc/aten.addmm",
    ]  # fmt: skip
    # Behind its module, and in the backward pass, an operation is in none.
    assert {"Net/aten.sort", "aten.pow.Tensor_Scalar", "aten.tanh_backward"} <= set(names)
    assert tensors(RUN)[None, "Net/aten.sort:output:1", 0].spec.dtype == "int64"
    calls = sorted(at for rank, address, at in tensors(RUN) if address == "aten.tanh_backward:output:0")
    assert calls == [0, 1]


def test_an_input_that_is_overwritten_was_hashed_before():
    found = tensors(RUN)
    before, after = (found[None, f"Net/aten.add_.Tensor:{io}:0", 0].statistics.values for io in ("input", "output"))
    assert before["xor64_wide"] != after["xor64_wide"]


def test_functions_of_torch_are_in_their_modules_and_have_no_hash():
    refs = index(DATA / "functions.json").refs
    named = [ref.key.op.label for ref in index(NORM).refs if ref.key.io == "output"]
    assert [ref.key.op.label for ref in refs] == named[: len(refs)]
    dump = index(DATA / "without_hashes.json")
    assert (dump.refs, "log_tensor_hashes" in dump.notes[0]) == ((), True)


def test_kernels_have_their_arguments_before_and_after():
    found = {key: ref.statistics.values["l1_norm"] for key, ref in tensors(DATA / "kernels.json").items()}
    taken, old = (found[None, f"triton_poi_fused_relu_0:input:{slot}", 0] for slot in (0, 1))
    kept, new = (found[None, f"triton_poi_fused_relu_0:output:{slot}", 0] for slot in (0, 1))
    assert (taken, old) == (kept, 0)
    assert 0 < new < taken


def test_collectives_of_ranks_are_those_that_have_arrived():
    dump = index(DATA / "ranks")
    found = tensors(DATA / "ranks")
    assert {rank for rank, _, _ in found} == {0, 1, 2, 3}
    arrived = {
        found[rank, "_c10d_functional.wait_tensor:output:0", 1].statistics.values["l1_norm"] for rank in range(4)
    }
    assert len(arrived) == 1
    assert not any("all_gather" in address for _, address, _ in found)
    assert [note for note in dump.notes if "2 collectives" in note] == list(dump.notes)
    assert len(dump.notes) == 4


# -- Gates -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "counts"),
    [
        ("run.json", "109 pass"),
        ("norm.json", "109 pass"),
        ("ranks", "20 pass"),
        # An equal XOR proves nothing, and neither does an L1 norm that is NaN.
        ("xor.json", "109 undefined"),
        ("types.json", "58 pass, 1 warn, 4 undefined"),
    ],
)
def test_a_log_passes_against_itself_as_far_as_its_hashes_say(left, counts, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = main(["compare", str(DATA / left), str(DATA / left), "--io", "all"])
    assert (counts in capsys.readouterr().out, code) == (True, int("undefined" in counts))


@pytest.mark.parametrize("right", [RUN, NORM])
def test_the_first_operation_that_differs_is_named_with_its_line(right, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", str(WRONG), str(right)]) == 1
    out = capsys.readouterr().out
    assert "DRIFT  Net.layers.1/aten.mul.Tensor:output:0" in out
    assert "op 8 of 46" in out
    assert f"make.py:{line_of('x * 1.01')}" in out


def test_an_xor_alone_proves_that_bits_differ(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = log_of(XOR)
    call = next(call for call in log["logs"] if call.get("op_name") == "aten::tanh")
    call["log"]["items"][-1][1]["value"] ^= 1 << 40
    (tmp_path / "left.json").write_text(json.dumps(log))
    assert main(["compare", "left.json", str(XOR), "--profile", "bitwise"]) == 1
    assert "47 tensors: 1 fail, 46 undefined" in capsys.readouterr().out
    assert main(["compare", str(XOR), str(XOR), "--profile", "bitwise"]) == 1
    assert "xor64_wide is equal, which proves nothing" in capsys.readouterr().out.replace("\n              ", " ")


def test_an_equal_xor_does_not_excuse_another_sum_of_magnitudes(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = log_of(RUN)
    call = next(call for call in log["logs"] if call.get("op_name") == "aten::tanh")
    call["log"]["items"][-1][1]["items"][0]["value"] *= 5
    (tmp_path / "left.json").write_text(json.dumps(log))
    assert main(["compare", "left.json", str(RUN)]) == 1
    assert "47 tensors: 46 pass, 1 fail" in capsys.readouterr().out


# -- Hostile content -------------------------------------------------------------------------------------------------


def scalar(value):
    return {"type": "scalar", "value": value}


def nested(depth):
    value = scalar(1.0)
    for _ in range(depth):
        value = {"type": "list", "items": [value]}
    return value


def hashed(value):
    """A log of one call with this hash."""
    log = {"type": "dict", "items": [["hash", value]]}
    call = {"type": "op", "call_depth": 1, "op_name": "aten::mm", "args_str": "", "kwargs_str": "", "log": log}
    call["output_str"] = "  ->  t: f32[2, 3]"
    return {"format": "torch.utils._debug_mode.DebugMode.logs", "version": 1, "logs": [call]}


def written(folder, log):
    path = folder / "log.json"
    path.write_text(log if isinstance(log, str) else json.dumps(log))
    return path


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("", "not JSON"), ("[]", "not a JSON object"), ("[" * 100_000, "not JSON"), ("{}", "no kind that is known"),
        ({**hashed(scalar(1.0)), "format": "x"}, "no kind that is known"),
        ({**hashed(scalar(1.0)), "version": 2}, "a log of DebugMode of another version"),
        ({**hashed(scalar(1.0)), "logs": {}}, "a log of DebugMode of another version"),
    ],
)  # fmt: skip
def test_another_file_is_refused_by_its_name(tmp_path, log, said):
    with pytest.raises(UnknownDumpFormatError, match=rf"log\.json: is (JSON of )?{said}"):
        index(written(tmp_path, log))


@pytest.mark.parametrize(
    "value",
    [
        scalar(True), scalar("1"), scalar(-1), scalar(2**64), scalar(-0.5), {"type": "scalar", "value": [1]}, [1], "x",
        {"type": "nonfinite_float", "value": "-inf"}, {"type": "dict", "items": [1]}, {"type": "x", "items": []},
        nested(200), {"type": "tuple", "items": [scalar("a"), scalar(1.0)]},
    ],
)  # fmt: skip
def test_what_is_no_hash_is_left_out_and_counted(tmp_path, value):
    dump = index(written(tmp_path, hashed(value)))
    assert dump.refs == ()
    assert "log.json has 1 call that cannot be read, left out" in dump.notes


@pytest.mark.parametrize(
    "entry",
    [
        None, 3, [], {}, {"type": "op"}, {"type": "op", "call_depth": 1.5, "op_name": "a"},
        {"type": [], "call_depth": 1},
        {"type": "op", "call_depth": 1, "op_name": "a\u001b[2J"}, {"type": "op", "call_depth": True, "op_name": "a"},
        {"type": "op", "call_depth": 1, "op_name": "a" * 5000}, {"type": "new", "call_depth": 1},
    ],
)  # fmt: skip
def test_an_entry_of_no_known_kind_is_counted_and_the_others_are_read(tmp_path, entry):
    log = hashed(scalar(2.0))
    log["logs"].insert(0, entry)
    dump = index(written(tmp_path, log))
    assert [(ref.key.address, ref.place) for ref in dump.refs] == [("aten.mm:output:0", 1)]
    assert dump.notes == ("log.json has 1 call that cannot be read, left out",)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("t: f32[2, 3]", ("float32", (2, 3))), ("t$7: b8[]", ("bool", ())), ("dt: bf16[4]| S(0)", ("bfloat16", (4,))),
        ("t: f8e4m3fn[0, 2]", ("float8_e4m3fn", (0, 2))), ("ft: q9[2]", (None, (2,))), ("f32[2]", (None, None)),
        ("t: f32[s0]", (None, None)), ("t: f32[2] t: f32[2]", (None, None)), (f"t: f32[{'9' * 30}]", (None, None)),
        ("t: f32[" + "1, " * 100 + "1]", (None, None)), (None, (None, None)), (7, (None, None)),
    ],
)  # fmt: skip
def test_types_and_shapes_are_believed_where_there_are_as_many_as_hashes(tmp_path, text, spec):
    log = hashed(scalar(2.0))
    log["logs"][0]["output_str"] = text
    (ref,) = index(written(tmp_path, log)).refs
    assert (ref.spec.dtype, ref.spec.shape) == spec


def test_a_rank_has_one_log_and_other_files_are_unexplained(tmp_path):
    for name in ("rank_0.json", "rank1.json", "notes.json"):
        shutil.copyfile(NORM, tmp_path / name)
    (tmp_path / "rank_7").mkdir()
    shutil.copyfile(NORM, tmp_path / "rank_7" / "rank_2.json")
    dump = index(tmp_path)
    assert {path.as_posix() for path in dump.unexplained} == {"notes.json", "rank_7/rank_2.json"}
    assert {ref.key.op.at.rank for ref in dump.refs} == {0, 1}
    shutil.copyfile(NORM, tmp_path / "rank_01.json")
    with pytest.raises(UnknownDumpFormatError, match="both of rank 1"):
        index(tmp_path)


# -- PyTorch itself --------------------------------------------------------------------------------------------------


@pytest.mark.live
@pytest.mark.skipif(not PYTHON, reason="MSDUMP_DEBUG_MODE_PYTHON names no Python with PyTorch 2.14")
def test_new_logs_are_read_as_the_kept_ones(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    subprocess.run([PYTHON, "-W", "ignore", DATA / "make.py", tmp_path], check=True, timeout=600)
    assert held_to_tensors(tmp_path, "run") >= {"float32"}
    assert len(held_to_tensors(tmp_path, "types")) == 14
    for name in ("run.json", "norm.json", "functions.json", "kernels.json", "ranks"):
        assert main(["compare", name, str(DATA / name), "--io", "all"]) == 0, capsys.readouterr().out
    assert main(["compare", "wrong.json", "run.json"]) == 1
