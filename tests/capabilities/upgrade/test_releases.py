"""Sixty-four releases of a package, two of which change operators that have nothing to do with each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from upgrades.pairs import PLACES, Upgrade, environment, package

from pytest_msdump.capabilities.upgrade.court import Court
from pytest_msdump.capabilities.upgrade.environments import Environment, Maker
from pytest_msdump.capabilities.upgrade.releases import Search, releases_between
from pytest_msdump.capabilities.upgrade.running import Program
from pytest_msdump.core.errors import ConfigError

NETWORK = Path(__file__).parents[3] / "benchmarks" / "upgrades" / "network.py"
SUM = Upgrade("order", "x.sum(axis=axis, keepdims=False)  # sum", "np.add.accumulate(x, axis=-1)[..., -1]", "", ())
EPSILON = Upgrade("epsilon", "np.float32(epsilon)", "np.float32(10 * epsilon)", "wrong", PLACES["layer_norm"])
NAMES = [f"tinyops==1.{number}" for number in range(64)]


def search(tmp_path: Path, changes: dict[int, Upgrade], broken: tuple[int, ...], names: list[str]) -> Search:
    def make(name: str) -> Environment:
        number = int(name.rpartition(".")[2])
        text = package(*(one for first, one in changes.items() if first <= number))
        if number in broken:
            text = "raise ImportError('built for another machine')\n" + text
        return replace(Maker(tmp_path).environment(str(environment(tmp_path / f"env_{number}", text))), name=name)

    (tmp_path / "runs").mkdir()
    return Search(Court(Program(["python", str(NETWORK)], tmp_path / "runs", 60.0)), make, names)


@pytest.mark.e2e
@pytest.mark.full
def test_two_changes_among_releases_of_which_three_are_broken_are_found_by_trying_a_quarter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEED", "5")
    # The first release that is tried, and one beside each change.
    trial = search(tmp_path, {20: SUM, 45: EPSILON}, (31, 46, 19), NAMES)
    found = trial.between()
    changed = {
        (step.old, step.new): {one.operator: one.verdict for one in step.changes if one.verdict != "inherited"}
        for step in found.steps
    }
    assert changed == {
        ("tinyops==1.18", "tinyops==1.20"): {"total": "kernel"},
        ("tinyops==1.44", "tinyops==1.45"): dict.fromkeys(PLACES["layer_norm"], "wrong"),
    }
    assert len(found.tried) <= 16
    assert set(found.skipped) <= {NAMES[one] for one in (31, 46, 19)}
    assert found.code(frozenset()) == 1


@pytest.mark.e2e
@pytest.mark.full
def test_a_change_that_comes_and_goes_again_is_found_where_each_release_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEED", "5")
    back = Upgrade("back", SUM.after, SUM.before, "", ())
    found = search(tmp_path, {1: SUM, 3: back}, (2,), NAMES[:5]).each()
    assert [(step.new, len(step.changes)) for step in found.steps] == [(NAMES[1], 1), (NAMES[3], 1), (NAMES[4], 0)]
    assert "built for another machine" in found.skipped[NAMES[2]]


def test_releases_are_those_between_both_in_order_of_versions() -> None:
    found = releases_between("a==1.9", "a==1.10.1", "1.10,1.8,1.11, 1.9.1")
    assert found == ["a==1.9", "a==1.9.1", "a==1.10", "a==1.10.1"]


@pytest.mark.parametrize(
    ("old", "new", "releases"),
    [
        ("a>=1", "a==2", "1"),
        ("a==2", "a==1", "1"),
        ("a==1", "b==2", "1"),
        ("a==1", "a==2", "1,x"),
        ("a==1.*", "a==2", ""),
    ],
)
def test_releases_that_cannot_be_meant_are_refused(old: str, new: str, releases: str) -> None:
    with pytest.raises(ConfigError, match="--"):
        releases_between(old, new, releases)
