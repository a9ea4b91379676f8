"""A metric that is left out is measured by nobody, and no limit may wait for it."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.limits.policy import KnownDrift, Policy, Rule
from pytest_msdump.core.metrics.measure import measure
from pytest_msdump.core.report.json_report import read_json
from pytest_msdump.core.text import say

LEFT_OUT = {"kl_divergence": "--without"}
NEEDS = {
    "rule": {"rules": (Rule({"kld": (0.1, None)}, label="suite [[rule]] #1"),)},
    "threshold": {"thresholds": {"kld": 0.1}},
    "marker": {"marker": {"kl_divergence": 0.1}},
    "drift": {"known_drift": (KnownDrift("*", "why", datetime.date(2099, 1, 1), {"kld": (0.1, None)}, "drift #1"),)},
    "profile": {"profile": "ascend"},
}

# Of two tensors alone; others need a golden or a third one.
OF_TWO = [name for name, fact in METRICS.items() if not fact.golden and not fact.of]


class CountedView(ArrayView):
    """Counts how many elements are read."""

    elements = 0

    def read(self, start: int, stop: int) -> Any:
        self.elements += stop - start
        return super().read(start, stop)


def sides() -> tuple[Any, Any]:
    random = np.random.default_rng(3)
    right = random.normal(size=1000).astype("f4")
    return right + random.normal(size=1000, scale=1e-4).astype("f4"), right


def test_without_divergence_the_data_is_read_once_and_the_rest_is_the_same() -> None:
    views = [CountedView(side) for side in sides()]
    whole = measure(*views, block_elements=400)
    assert [view.elements for view in views] == [2000, 2000]
    views = [CountedView(side) for side in sides()]
    found = measure(*views, block_elements=400, without=LEFT_OUT)
    assert [view.elements for view in views] == [1000, 1000]
    assert say(found.measurements["kl_divergence"].undefined) == "it was left out by --without"
    assert found.measurements["kl_divergence"].value is None
    assert found.measurements.keys() == set(OF_TWO)
    others = set(OF_TWO) - LEFT_OUT.keys()
    assert [found.measurements[one] for one in others] == [whole.measurements[one] for one in others]


@pytest.mark.parametrize("metric", OF_TWO)
def test_any_metric_may_be_left_out_and_has_no_number_then(metric: str) -> None:
    for pair in (sides(), (sides()[0], sides()[0]), (np.empty(0), np.empty(0))):
        found = measure(ArrayView(pair[0]), ArrayView(pair[1]), without={metric: "here"})
        assert found.measurements[metric].value is None
        assert say(found.measurements[metric].undefined) == "it was left out by here"
        assert metric not in found.vendor


@pytest.mark.parametrize("who", NEEDS)
def test_a_limit_on_what_is_left_out_is_refused(who: str) -> None:
    Policy(**NEEDS[who])
    with pytest.raises(ConfigError) as excinfo:
        Policy(**NEEDS[who], without=LEFT_OUT)
    assert str(excinfo.value).startswith("--without: kl_divergence cannot be left out, ")
    assert " has a limit on it; " in str(excinfo.value)
    Policy(**NEEDS[who], without={"standard_deviation": "--without"})


def test_the_command_leaves_it_out_and_refuses_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, side in zip(("a.npy", "b.npy"), sides(), strict=True):
        np.save(name, side)
    limits = ["--threshold", "cosine=0.5"]
    assert main(["compare", "a.npy", "b.npy", *limits, "--without", "kld"]) == 0
    (tensor,) = read_json(Path("msdump-report/results.json"))["tensors"]
    assert tensor["undefined"]["kl_divergence"] == "it was left out by --without"
    assert main(["compare", "a.npy", "b.npy", *limits]) == 0
    (tensor,) = read_json(Path("msdump-report/results.json"))["tensors"]
    assert tensor["metrics"]["kl_divergence"] > 0
    capsys.readouterr()
    assert main(["compare", "a.npy", "b.npy", "--profile", "ascend", "--without", "kld"]) == 4
    assert capsys.readouterr().err == (
        "msdump: --without: kl_divergence cannot be left out, profile ascend has a limit on it; take profile default\n"
    )
