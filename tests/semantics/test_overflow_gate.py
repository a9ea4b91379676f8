"""What the device's own overflow check says is part of the verdict, whatever the numbers look like."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_reference
from semantics.gate import Answer, ask

from pytest_msdump import assert_no_overflow
from pytest_msdump.cli import main

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden" / "h_overflow"
SENTENCE = "the device's own check found an overflow: AIC reports task 12, stream 3: status 32"


def reference(folder: Path, *, factor: float = 1.0) -> Path:
    """The golden dump's own outputs, within every limit of them."""
    values = np.array([65504, -65504, 1, np.inf], "<f2")
    values[2] *= np.float16(factor)
    write_reference(folder, {"Mul_7": values, "Add_9": values})
    return folder


def verdicts(answer: Answer) -> dict[str, str]:
    return {record["left"]["address"]: record["verdict"] for record in answer.results["tensors"]}


def test_an_overflow_that_the_numbers_do_not_show_fails_its_operator_alone(tmp_path):
    answer = ask(GOLDEN / "aic_v0", reference(tmp_path / "right", factor=1.001), reports=tmp_path / "out")
    assert (answer.code, verdicts(answer)) == (1, {"Mul_7:output:0": "fail", "Add_9:output:0": "pass"})
    assert SENTENCE in answer.text
    assert "floating-point operation overflows" in answer.text
    assert "the device's own check reports overflow of Mul_7" in answer.text
    assert answer.results["tensors"][0]["left"]["overflows"][0].startswith("AIC reports task 12")


@pytest.mark.parametrize(("arguments", "code"), [((), 1), (("--threshold", "saturated_count=1"), 0)])
def test_who_allows_overflow_is_only_told(tmp_path, arguments, code):
    right = reference(tmp_path / "right", factor=1.001)
    answer = ask(GOLDEN / "aic_v0", right, *arguments, reports=tmp_path / "out")
    assert answer.code == code
    assert SENTENCE in answer.text


def test_a_saved_result_is_judged_with_it_again(tmp_path, capsys):
    ask(GOLDEN / "aic_v0", reference(tmp_path / "right", factor=1.001), reports=tmp_path / "out")
    saved = str(tmp_path / "out" / "results.json")
    assert main(["check", saved, "--profile", "strict"]) == 1
    assert SENTENCE in " ".join(capsys.readouterr().out.split())
    assert main(["check", saved, "--threshold", "saturated_count=1"]) == 0
    file = json.loads(Path(saved).read_text())
    file["tensors"][0]["left"]["overflows"] = [3]
    Path(saved).write_text(json.dumps(file))
    assert main(["check", saved, "--profile", "strict"]) == 4
    assert "overflows[0]: expected a text" in capsys.readouterr().err


def test_an_overflow_of_the_reference_is_told_and_fails_nothing(tmp_path):
    left = tmp_path / "left"
    shutil.copytree(GOLDEN / "aic_v0", left)
    (left / "Opdebug.Node_OpDebug.5.9.1600000000000050").unlink()
    answer = ask(left, GOLDEN / "aic_v0", reports=tmp_path / "out")
    assert (answer.code, set(verdicts(answer).values())) == (0, {"pass"})
    assert "the device's own check reports overflow of Mul_7" in answer.text
    notes = [note["sentence"] for note in answer.results["tensors"][0]["findings"]]
    assert any("the device's check of the right side: AIC" in note for note in notes)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("no_dump_file", "of which nothing was dumped"),
        ("bad_acc_type", "is left out"),
    ],
)
def test_a_report_that_means_no_operator_or_cannot_be_read_is_told(tmp_path, case, expected):
    answer = ask(GOLDEN / case, reference(tmp_path / "right"), reports=tmp_path / "out")
    assert expected in answer.text


def test_the_assertion_about_one_side_knows_the_devices_check(tmp_path):
    """Numbers that look harmless beside a report of the device."""
    shutil.copy(GOLDEN / "aic_v0" / "Opdebug.Node_OpDebug.5.9.1600000000000050", tmp_path)
    np.save(tmp_path / "Mul.Mul_7.12.3.1600000000000040.output.0.npy", np.ones(3, "<f4"))
    with pytest.raises(AssertionError, match="own check has 1 to report; first in execution order:\n  Mul_7: AIC"):
        assert_no_overflow(tmp_path)
    with pytest.raises(AssertionError, match=r"check has 1 to report; 2 of 4 tensors overflow"):
        assert_no_overflow(GOLDEN / "aic_v0")
    with pytest.raises(AssertionError, match="an operator that was not dumped: AI"):
        assert_no_overflow(GOLDEN / "no_dump_file")
