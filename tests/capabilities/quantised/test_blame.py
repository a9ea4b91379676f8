"""Operators of a quantised run are named by the error that their own quantisation adds."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.capabilities.quantised.blame import Ordered
from pytest_msdump.capabilities.quantised.figures import Grid, error, figures_of, fitted_grid, grid_of, limits_of
from pytest_msdump.cli import main
from pytest_msdump.core.model.record import Local
from pytest_msdump.core.report.json_report import report_from
from pytest_msdump.core.report.summary import summary_lines

DATA = Path(__file__).parents[2] / "data/quantised"
EXACT = np.random.default_rng(5).normal(size=4000)
FIT = Grid(8 / 255, 0.0, -128, 127)


def compared(tmp_path: Path, name: str, *more: str) -> dict:
    """Compare a folder of `tests/data/quantised`, which ONNX Runtime wrote, with floats."""
    assert main(["compare", str(DATA / name), str(DATA / "float"), "--report-dir", str(tmp_path), *more]) == 1
    return json.loads((tmp_path / "results.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("name", "operator", "why", "record"),
    [
        ("too_small", "/1/Relu_output_0_QuantizeLinear", "clipped", "/1/Relu_output_0_DequantizeLinear:output:0"),
        ("weight_scale", "/0/Gemm", "weights", "/0/Gemm:output:0"),
        ("too_small_qoperator", "x_QuantizeLinear", "saturated", "11_DequantizeLinear:output:0"),
    ],
)
def test_the_operator_whose_quantisation_is_wrong_is_the_cause(
    tmp_path: Path, name: str, operator: str, why: str, record: str
) -> None:
    found = compared(tmp_path, name)
    first, *others = found["parts"]["quantised"]["rows"]
    assert first["name"] == operator
    assert first["why"].startswith(why)
    assert not any(one["is_wrong"] for one in others)
    causes = [one for one in found["tensors"] if one.get("role") == "cause"]
    assert [one["left"]["address"] for one in causes] == [record]
    assert causes[0]["role_reason"].startswith(operator)


@pytest.mark.parametrize("name", ["sound", "sound_qoperator"])
def test_of_sound_quantisation_nothing_is_accused_and_figures_are_listed(tmp_path: Path, name: str) -> None:
    found = compared(tmp_path, name)
    assert {one.get("role") for one in found["tensors"]} == {"accumulated"}
    rows = found["parts"]["quantised"]["rows"]
    assert not any(one["is_wrong"] for one in rows)
    assert [one["own"] for one in rows] == sorted((one["own"] for one in rows), reverse=True)


def test_codes_that_a_layer_is_given_are_no_floats_that_it_rounds(tmp_path: Path) -> None:
    left = shutil.copytree(DATA / "sound_qoperator", tmp_path / "left")
    manifest = json.loads((left / "msdump.json").read_text("utf-8"))
    # Of the shape of what the layer gives out, as those of a depthwise convolution are.
    given = next(name for name, one in manifest["tensors"].items() if one["op"] == "/0/Gemm_quant")
    copied = given.replace("_0_", "_2_")
    shutil.copy(left / given, left / copied)
    manifest["tensors"][copied] = {"op": "/2/Gemm_quant", "op_type": "QGemm", "io": "input"}
    (left / "msdump.json").write_text(json.dumps(manifest), "utf-8")
    found = compared(tmp_path / "report", str(left))
    assert {one.get("role") for one in found["tensors"]} == {"accumulated"}
    # What rounding to 8 bits adds here.
    assert max(one["own"] for one in found["parts"]["quantised"]["rows"]) < 0.02


@pytest.mark.parametrize(("language", "said"), [("en", "6.09×therange"), ("zh", "范围的6.09倍")])
def test_what_is_printed_stands_in_both_languages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], language: str, said: str
) -> None:
    compared(tmp_path, "too_small", "--lang", language)
    printed = "".join(capsys.readouterr().out.split())
    # At the failure, as the cause and in the list.
    assert printed.count(said) >= 3


@pytest.mark.parametrize(
    ("grid", "why"),
    [
        (FIT, "rounded"),
        (FIT._replace(scale=FIT.scale / 6), "clipped"),
        (FIT._replace(scale=FIT.scale * 20), "coarse"),
        (FIT._replace(zero_point=100.0), "misplaced"),
    ],
)
def test_a_range_is_held_to_the_values_that_it_has_to_hold(grid: Grid, why: str) -> None:
    found = figures_of(EXACT, grid.rounded(EXACT), EXACT, grid)
    assert found.why == why
    assert found.is_wrong == (why != "rounded")
    low, high = grid.reach
    assert found.clipped == pytest.approx(np.mean((low > EXACT + grid.scale / 2) | (high < EXACT - grid.scale / 2)))


@pytest.mark.parametrize(("change", "why"), [(lambda x: x + 1.0, "shifted"), (lambda x: x * 1.5, "factor")])
def test_numbers_that_change_on_the_way_through_are_told_from_a_range(change: object, why: str) -> None:
    values = change(FIT.rounded(EXACT))  # type: ignore[operator]
    found = figures_of(EXACT, values, EXACT, FIT)
    assert (found.why, found.is_wrong) == (why, True)


def test_values_that_an_earlier_mistake_made_large_are_no_fault_of_the_range() -> None:
    given = EXACT * 10
    assert not figures_of(given, FIT.rounded(given), EXACT, FIT).is_wrong


def test_one_large_channel_is_named_and_not_called_wrong() -> None:
    channels = np.arange(EXACT.size) % 8.0
    exact = np.where(channels == 0, EXACT * 300, EXACT)
    grid = Grid(2 * np.abs(exact).max() / 255, 0.0, -128, 127)
    found = figures_of(exact, grid.rounded(exact), exact, grid, channels)
    assert (found.why, found.is_wrong) == ("outlying", False)
    assert found.own > 0.5 > error(grid.rounded(exact), exact)


@pytest.mark.parametrize("limits", [(-128, 127), (0, 255), (-8, 7)])
def test_a_grid_is_found_from_codes_and_what_they_stand_for(limits: tuple[int, int]) -> None:
    grid = Grid(6 / (limits[1] - limits[0]), float(sum(limits) // 2), *limits)
    codes = np.clip(np.rint(EXACT / grid.scale + grid.zero_point), *limits)
    found = grid_of(codes, (codes - grid.zero_point) * grid.scale, limits)
    assert found is not None
    assert (found.scale, found.zero_point) == (pytest.approx(grid.scale), grid.zero_point)
    assert fitted_grid(codes, EXACT, limits).scale == pytest.approx(grid.scale, rel=0.03)
    assert grid_of(codes, np.cos(codes), limits) is None


def test_types_say_which_codes_there_are() -> None:
    assert [limits_of(one) for one in ("int8", "uint8", "int4", "uint4", "int32", "float32")] == [
        (-128, 127), (0, 255), (-8, 7), (0, 15), None, None,
    ]  # fmt: skip


@pytest.mark.parametrize("rows", [3, [3], [{"name": "a"}], [{"name": "a", "why": "x", "own": "1"}], [{"why": 1}]])
def test_rows_that_another_program_wrote_are_refused(rows: object) -> None:
    with pytest.raises(TypeError):
        Ordered(rows)  # type: ignore[arg-type]


def test_a_replay_counts_apart_what_rounding_explains(tmp_path: Path) -> None:
    report = report_from(compared(tmp_path, "too_small"))
    failing = Local("fail", "score", 100.0, 16.0)
    replayed = replace(report, records=tuple(replace(one, local=failing) for one in report.records))
    printed = " ".join("\n".join(summary_lines(replayed, width=200, files=[])).split())
    assert "replay: 1 wrong by themselves, 0 right, 0 not replayable" in printed
    assert "wrong by themselves: /1/Relu_output_0_DequantizeLinear" in printed
    assert "4 more differ by quantisation, or by a cause before them: /0/Gemm, /2/Gemm" in printed


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e300])
@pytest.mark.parametrize("exact", [EXACT * 1e-300, EXACT * 1e90, np.zeros(9), np.ones(9)])
def test_numbers_of_any_size_have_figures(scale: float, exact: np.ndarray) -> None:
    grid = Grid(scale, 3.0, -128, 127)
    with np.errstate(all="ignore"):
        found = figures_of(exact, grid.rounded(exact), exact, grid, np.arange(exact.size) % 3.0)
    assert found.levels is None or 1 <= found.levels <= 255
