"""The examples do what their READMEs promise, and hold what they say they hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from docs_pages import ROOT, copy_project, run

from pytest_msdump.core.report.json_report import read_json

EXAMPLES = ROOT / "example_suites"
LENET, WRONG, IN_PYTHON = "01_lenet_port", "02_failing_on_purpose", "03_in_a_python_test"
ASCEND, QUANTISED, ONE_DUMP = "04_ascend_fused_conv", "05_quantised", "08_one_dump"

SPOILT = ["conv2", "relu2", "pool2", "flatten", "fc1", "relu3", "fc2"]


def _results(project: Path) -> dict[str, object]:
    report: dict[str, object] = read_json(project / "msdump-report" / "results.json")
    return report


@pytest.mark.e2e
@pytest.mark.parametrize("profile", ["default", "strict", "ascend", "torch"])
def test_the_right_port_passes(profile: str, tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    code, printed = run(f"pytest -q example_suites/{LENET} --msdump-profile={profile}", project, tmp_path)
    assert code == 0, "\n".join(printed)
    assert printed[-1].startswith("11 passed")
    assert [record["verdict"] for record in _results(project)["tensors"]] == ["pass"] * 10


@pytest.mark.e2e
def test_the_wrong_port_fails_from_its_mistake_on(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    code, printed = run(f"pytest -q --tb=no example_suites/{WRONG}", project, tmp_path)
    assert code == 1, "\n".join(printed)
    assert printed[-1].startswith("7 failed, 4 passed")
    failing = [
        record["right"]["address"].removesuffix(":output:0")
        for record in _results(project)["tensors"]
        if record["verdict"] != "pass"
    ]
    assert failing == SPOILT
    assert any("first failing: op 6 of 23, DRIFT Default/conv2-Conv2d/BiasAdd-op0" in line for line in printed)


@pytest.mark.e2e
def test_the_example_of_python_tests_fails_on_the_wrong_port(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    right, wrong = f"../{LENET}/run", f"../{WRONG}/run"
    for name in ("pyproject.toml", "test_port.py"):
        file = project / "example_suites" / IN_PYTHON / name
        changed = file.read_text(encoding="utf-8").replace(right, wrong)
        assert wrong in changed
        file.write_text(changed, encoding="utf-8")
    code, printed = run(f"pytest -q --tb=no example_suites/{IN_PYTHON}", project, tmp_path)
    failed = sorted(line.split("::")[-1].split(" ")[0] for line in printed if line.startswith("FAILED"))
    assert code == 1
    assert failed == [
        "Default/conv2-Conv2d/BiasAdd-op0",
        "Default/fc2-Dense/BiasAdd-op0",
        "test_every_convolution_is_close[Default/conv2-Conv2d/BiasAdd-op0:output:0]",
        "test_no_error_grows_beyond_ten_times_that_of_the_first_operator",
        "test_the_port_predicts_what_the_original_predicts",
        "test_the_scores_are_close",
    ]


@pytest.mark.e2e
def test_the_ascend_run_passes_and_its_drifted_twin_fails_where_it_was_spoilt(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    code, printed = run(f"pytest -q example_suites/{ASCEND}", project, tmp_path)
    assert code == 0, "\n".join(printed)
    reasons = {entry["address"]: entry["reason"] for entry in _results(project)["unmatched"]}
    assert reasons == {
        f"{layer}:output:0": "fused into conv1bn1relu1: its own output no longer exists in the compiled model"
        for layer in ("conv1", "bn1")
    }
    drifted = f"pytest -q example_suites/{ASCEND} --msdump-left=example_suites/{ASCEND}/drifted"
    code, printed = run(drifted, project, tmp_path)
    assert code == 1
    failing = [record for record in _results(project)["tensors"] if record["verdict"] != "pass"]
    assert [record["left"]["address"] for record in failing] == [
        f"{name}:output:0" for name in ("conv1bn1relu1", "pool1", "fc1")
    ]
    assert {element["index"][1] for record in failing[:2] for element in record["worst"]} == {18}
    assert any("conv1 + bn1 + relu1" in line for line in printed)


def test_every_bit_of_padding_in_the_ascend_dumps_is_nan() -> None:
    # Type of the file's operator → shape as stored, and how many of its elements are no padding.
    held = {
        "TransData": ((2, 1, 8, 8, 16), 2 * 3 * 8 * 8),
        "Conv2D": ((2, 2, 8, 8, 16), 2 * 19 * 8 * 8),
        "MaxPool": ((2, 2, 4, 4, 16), 2 * 19 * 4 * 4),
        "MatMulV2": ((2, 1, 16, 16), 2 * 21),
    }
    files = list((EXAMPLES / ASCEND).glob("*/20260121093000/0/fused_conv/1/0/*"))
    assert len(files) == 8
    for file in files:
        shape, real = held[file.name.split(".")[0]]
        count = int(np.prod(shape))
        values = np.frombuffer(file.read_bytes()[-2 * count :], np.float16)
        assert np.isnan(values).sum() == count - real, file.name


@pytest.mark.e2e
def test_the_writer_of_the_examples_writes_these_very_bytes() -> None:
    code = "import sys, numpy; import dump_file; a = numpy.array([[1, -2, 300]], 'float16'); "
    code += "sys.stdout.buffer.write(dump_file.dump_file('a/b', 300, dump_file.LAID_OUT['ND'](a), 'ND', (3,)))"
    ran = subprocess.run([sys.executable, "-c", code], cwd=EXAMPLES / ASCEND, capture_output=True, check=True)
    assert ran.stdout == bytes.fromhex(
        "20 00 00 00 00 00 00 00"  # a header of 32 bytes
        "0A 03 32 2E 30"  # version "2.0"
        "10 AC 02"  # dump_time 300
        "1A 11"  # output, 17 bytes
        "   08 02"  # float16
        "   10 02"  # ND
        "   1A 04 0A 02 01 03"  # stored as (1, 3)
        "   30 06"  # 6 bytes
        "   3A 03 0A 01 03"  # originally (3)
        "32 03 61 2F 62"  # op_name "a/b"
        "00 3C 00 C0 B0 5C"  # 1, -2, 300
    )


@pytest.mark.e2e
def test_the_quantised_run_passes_by_its_own_rule_and_not_by_that_of_float16(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    code, printed = run(f"pytest -q example_suites/{QUANTISED}", project, tmp_path)
    assert code == 0, "\n".join(printed)
    pairs = {record["left"]["address"]: record["right"]["address"] for record in _results(project)["tensors"]}
    assert pairs == {"conv1_dequant_layerrelu1:output:0": "relu1:output:0", "scale1:output:0": "scale1:output:0"}
    rules = "-f {0}/fusion.json -q {0}/quant.json".format(f"example_suites/{QUANTISED}")
    sides = f"example_suites/{QUANTISED}/run example_suites/{QUANTISED}/reference"
    for profile, expected in (("default", 1), ("ascend", 0)):
        code, printed = run(f"msdump compare {sides} {rules} --profile {profile}", project, tmp_path)
        assert code == expected, "\n".join(printed)


@pytest.mark.e2e
@pytest.mark.parametrize("example", [ASCEND, QUANTISED])
def test_the_scripts_make_the_files_that_are_there(example: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, EXAMPLES / example / "make_dumps.py", "--out", tmp_path], check=True)
    made = sorted(file.relative_to(tmp_path) for file in tmp_path.rglob("*") if file.is_file())
    assert len(made) >= 9
    for file in made:
        if file.suffix == ".npy":
            # The order of a sum is numpy's own affair.
            assert np.allclose(np.load(tmp_path / file), np.load(EXAMPLES / example / file), rtol=1e-4, atol=1e-5)
        elif file.suffix == ".json":
            assert (tmp_path / file).read_bytes() == (EXAMPLES / example / file).read_bytes()
        else:
            _assert_same_dump((tmp_path / file).read_bytes(), (EXAMPLES / example / file).read_bytes())


def _assert_same_dump(made: bytes, held: bytes) -> None:
    """The header byte for byte; half precision within its rounding, where numpy may sum in another order."""
    end = 8 + int.from_bytes(held[:8], "little")
    assert made[:end] == held[:end]
    if b"\x08\x02\x10" in held[8:end]:
        mine, theirs = (np.frombuffer(content[end:], np.float16).astype(float) for content in (made, held))
        assert np.allclose(mine, theirs, rtol=2e-3, atol=1e-5, equal_nan=True)
    else:
        assert made[end:] == held[end:]


def test_example_dumps_are_small() -> None:
    for example in (LENET, WRONG, ASCEND, QUANTISED):
        total = sum(file.stat().st_size for file in (EXAMPLES / example).rglob("*") if file.is_file())
        assert total < 300_000, f"{example} holds {total} bytes"


def test_no_dump_names_a_folder_of_the_machine_that_made_it() -> None:
    dumps = [EXAMPLES / LENET / "reference", EXAMPLES / LENET / "run", EXAMPLES / WRONG / "run"]
    dumps += [EXAMPLES / ASCEND / "run", EXAMPLES / QUANTISED / "run"]
    files = [file for dump in dumps for file in dump.rglob("*") if file.is_file()]
    assert len(files) > 100
    for file in files:
        content = file.read_bytes()
        assert not any(place in content for place in (b"/home/", b"/root", b"/tmp", b"/work", b"site-packages")), file


def _arrays(operator: str, iteration: int) -> list[tuple[str, np.ndarray]]:
    """Inputs, then outputs of one operator of the last example, by file names alone."""
    folder = EXAMPLES / ONE_DUMP / "run/rank_0/Net/0" / str(iteration)
    files = sorted(folder.glob(f"{operator}.*.npy"), key=lambda path: path.name.split(".")[5:7])
    return [(path.name.split(".")[5], np.load(path)) for path in files]


def test_the_training_overflows_in_its_exponential_and_never_trains_its_first_layer() -> None:
    order = (EXAMPLES / ONE_DUMP / "run/rank_0/execution_order/ms_execution_order_graph_0.csv").read_text().split()[1:]
    before = order[: order.index("Default/network-Net/Exp-op0")]
    for name in before:
        op_type = name.rsplit("/", 1)[-1].partition("-op")[0]
        for _, array in _arrays(f"{op_type}.{name.replace('/', '_')}", 0):
            assert np.isfinite(array.astype(float)).all(), name
    [(_, given), (_, found)] = _arrays("Exp.Default_network-Net_Exp-op0", 0)
    assert np.isfinite(given).all()
    assert np.isinf(found).any()
    for weight in ("first_weight", "first_bias"):
        [(_, one)], [(_, other)] = (_arrays(f"Parameter.{weight}", step) for step in (0, 1))
        assert np.array_equal(one, other), weight
