"""What is said where the first tensor to fail is not the cause: in results, summary, Markdown, annotations, page."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deep_net
import numpy as np
import pytest
from causes.networks import write_ir
from dump_builder import Tensor, write_mindspore
from two_dumps import reported

from pytest_msdump.capabilities.causes.roles import reason_of
from pytest_msdump.capabilities.causes.summarised import loose_limits
from pytest_msdump.capabilities.ci.markdown import markdown_text
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.report.base import printed_lines
from pytest_msdump.core.report.record_json import checked_record, to_json
from pytest_msdump.core.report.summary import summary_lines
from pytest_msdump.core.text import ENGLISH, Phrases

GOOD, BAD = np.ones((2, 3), "f4"), np.full((2, 3), 2, "f4")
# Shares of the limit: b jumps, and e is the first to fail.
JUMPED = (0.002, 0.09, 0.3, 0.9, 1.06, 1.2)
ACCUMULATED = (0.1, 0.4, 0.9, 1.06, 1.3)


def chain(folder: Path, shares: Sequence[float], *, graph: bool = True, **options: Any) -> Report:
    """Operators a, b, …, one after another, each this far from the right one, in units of the limit of float32."""
    numbers = np.random.default_rng(1)
    right = numbers.standard_normal(512)
    error = numbers.standard_normal(512)
    error *= np.linalg.norm(right) / np.linalg.norm(error) * 1e-3
    names = [f"Default/{chr(ord('a') + number)}" for number in range(len(shares))]
    for side, factor in (("left", 1.0), ("right", 0.0)):
        tensors: list[Tensor] = [
            ("MatMul", name, "output", 0, (right + factor * share * error).astype("f4"))
            for name, share in zip(names, shares, strict=True)
        ]
        write_mindspore(folder / side, tensors)
    if graph:
        ops = [
            {"name": name, "type": "MatMul", "input": [f"{names[number - 1]}:0"] if number else []}
            for number, name in enumerate(names)
        ]
        (folder / "net.json").write_text(json.dumps({"name": "n", "graph": [{"op": ops}]}), "utf-8")
        options["fusion"] = "net.json"
    return reported(folder, **options)


def by_name(report: Report) -> dict[str, Record]:
    return {(record.left.true_name or "").removeprefix("Default/"): record for record in report.records}


def text_of(lines: Sequence[str]) -> str:
    return " ".join(" ".join(lines).split())


def test_the_cause_may_pass_and_leads(tmp_path: Path) -> None:
    report = chain(tmp_path, JUMPED)
    found = by_name(report)
    assert {name: record.role for name, record in found.items()} == {
        **dict.fromkeys("acd"),
        "b": "cause",
        **dict.fromkeys("ef", "inherited"),
    }
    assert found["e"].causes == found["f"].causes == ("Default/b:output:0",)
    told = text_of(summary_lines(report, width=100))
    assert told.index("cause Default/b (op 2 of 6)") < told.index("first failing: op 5 of 6")
    assert (
        "it is still within its limit, but operators that take its output fail; its error grew × 45, from 0.002 to 0.09"
        in told
    )
    assert "2 inherited: Default/e, Default/f" in told
    assert reason_of(found["e"], ENGLISH).startswith("the error grew × 45 here, still within its limit")


def test_accumulated_errors_are_told_with_the_path_they_grew_on(tmp_path: Path) -> None:
    report = chain(tmp_path, ACCUMULATED)
    found = by_name(report)
    assert [record.role for record in report.records] == [None, None, None, "accumulated", "accumulated"]
    why = found["d"].role_why
    assert why is not None
    assert why.growth is not None
    assert (why.growth.operators, why.growth.at) == (3, "Default/b")
    assert (why.growth.start, why.growth.end, why.growth.step) == pytest.approx((0.1, 1.06, 4), rel=0.01)
    told = text_of(summary_lines(report, width=100))
    assert "2 accumulated; found by" in told
    assert "error grew from 0.1 to 1.06 of the limit over 3 operators; the largest step is × 4 at Default/b" in told
    assert "1 accumulated after it: Default/e" in told
    assert "In 2 it accumulated: `error grew from 0.1 to 1.06" in markdown_text(report)
    assert "逐步累积" in json.dumps(_words(), ensure_ascii=False)
    chinese = text_of(summary_lines(report, width=100, say=Phrases("zh")))
    assert "2 个累积" in chinese
    errors = printed_lines(["github"], [report])
    assert len([line for line in errors if line.startswith("::error")]) == 1
    assert "1 accumulated" in errors[-1]


def _words() -> Any:
    from pytest_msdump.capabilities.html.words import PAGE

    return dict(PAGE)


@pytest.mark.parametrize("shares", [JUMPED, ACCUMULATED, (0.001, 30.0), (0.0, 30.0)])
def test_how_it_grew_is_kept_in_results(tmp_path: Path, shares: Sequence[float]) -> None:
    for record in chain(tmp_path, shares).records:
        entry = json.loads(json.dumps(to_json(record)))
        again = checked_record(entry, place="here")
        assert (again.role, again.causes, again.role_why) == (record.role, record.causes, record.role_why)


def test_a_jump_within_the_limit_of_a_run_that_passes_is_told(tmp_path: Path) -> None:
    report = chain(tmp_path, (0.001, 0.1, 0.2))
    assert not any(record.role for record in report.records)
    assert "grew × 99.9 at Default/b, still within its limit" in text_of(summary_lines(report, width=100))
    assert "grew" not in text_of(summary_lines(chain(tmp_path / "2", (0.04, 0.1, 0.2)), width=100))
    from_equal = text_of(summary_lines(chain(tmp_path / "3", (0.0, 0.1, 0.2)), width=100))
    assert "grew from 0 at Default/b, still within its limit" in from_equal


# -- loose limits ----------------------------------------------------------------------------------------------------


def test_loose_limits_are_a_doubt_and_the_largest_growth_is_named(tmp_path: Path) -> None:
    shares = (0.001, 2.0, 8.0, 30.0, 55.0)
    strict = chain(tmp_path, shares)
    assert loose_limits(strict.records) == ""
    loose = chain(tmp_path, shares, profile="ascend")
    assert [record.role for record in loose.records] == [None, "cause", None, None, "inherited"]
    loose_text = "these limits are loose: the mistake may be far ahead of the first operator that fails"
    said = f"{loose_text}; the largest growth is × 2000"
    assert loose_limits(loose.records) == f"{said} at Default/b"
    assert "these limits are loose" in text_of(summary_lines(loose, width=100))
    assert "these limits are loose" in printed_lines(["github"], [loose])[0]
    assert "these limits are loose" in markdown_text(loose)


# -- an operator that was left out -----------------------------------------------------------------------------------


def test_an_operator_that_the_left_leaves_out_is_named_with_the_failure_behind_it(tmp_path: Path) -> None:
    names = ("conv1", "relu1", "conv2")
    for side, left_out in (("left", "relu1"), ("right", "")):
        values: list[Tensor] = [
            ("Conv2D", f"Default/{name}", "output", 0, BAD if (side, name) == ("left", "conv2") else GOOD)
            for name in names
            if name != left_out
        ]
        write_mindspore(tmp_path / side, values)
    write_ir(tmp_path, ["conv1 Conv2D x", "relu1 ReLU conv1", "conv2 Conv2D relu1"])
    right = tmp_path / "right" / "rank_0" / "graphs"
    right.parent.mkdir(exist_ok=True)
    (tmp_path / "left" / "rank_0" / "graphs").rename(right)
    write_ir(tmp_path, ["conv1 Conv2D x", "conv2 Conv2D conv1"])
    report = reported(tmp_path)
    conv2 = by_name(report)["conv2"]
    assert conv2.role == "cause"
    assert conv2.role_why is not None
    assert conv2.role_why.left_out == ("Default/relu1",)
    told = text_of(summary_lines(report, width=100))
    assert "its input on the right has no partner: Default/relu1" in told
    assert checked_record(json.loads(json.dumps(to_json(conv2))), place="here").role_why == conv2.role_why


# -- whole networks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize("mistake", [True, False])
@pytest.mark.full
def test_a_mistake_behind_an_error_that_grew_through_a_deep_network(tmp_path: Path, mistake: bool, graph: bool) -> None:
    deep_net.write_net(tmp_path, mistake=mistake, graph=graph)
    report = deep_net.compared(tmp_path)
    first = next(record for record in report.records if record.fails)
    assert (first.order + 1, first.role) == (122, "accumulated")
    causes = [record.order + 1 for record in report.records if record.role == "cause"]
    assert causes == ([125] if mistake else [])
    assert "of the limit over 121 operators; the largest step is × 1.0" in reason_of(first, ENGLISH)
    assert math.isclose(first.metrics["relative_euclidean_distance"], 1.06e-3, rel_tol=1e-3)
