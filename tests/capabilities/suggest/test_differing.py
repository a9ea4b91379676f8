"""Behind a mistake no values agree: names, order and nearness pair what belongs together, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from dump_builder import write_reference

from pytest_msdump.cli import main
from pytest_msdump.core.matching.maps import is_template
from pytest_msdump.core.suite import read_toml

_Values = Mapping[str, npt.NDArray[np.float64]]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _entries(left: _Values, right: _Values, *, is_in_order: bool = False) -> dict[str, str]:
    """Return the active entries of `init`, left name by right name; without order the files have names alone."""
    for side, tensors in (("run", left), ("ref", right)):
        if is_in_order:
            write_reference(Path(side), dict(tensors))
        else:
            Path(side).mkdir()
            for name, values in tensors.items():
                np.save(f"{side}/{name}.npy", values)
    assert main(["match", "run", "ref", "--pair-by", "name", "--suggest", "-o", "made.toml"]) in (0, 1)
    entries = read_toml(Path("made.toml"))["msdump"].get("map", [])
    return {
        theirs.removesuffix(":output:0"): ours.removesuffix(":output:0")
        for entry in entries
        for ours, theirs in _expanded(entry["left"], entry["right"], range(12))
        if theirs.removesuffix(":output:0") in right
    }


def _expanded(left: str, right: str, numbers: Iterable[int]) -> list[tuple[str, str]]:
    if not is_template(left):
        return [(left, right)]
    return [(left.replace("{i}", str(number)), right.replace("{i}", str(number))) for number in numbers]


def _stages(sizes: Mapping[int, int], *, more: Iterable[int] = ()) -> tuple[_Values, _Values, dict[str, str]]:
    """Stages of blocks, of which nothing agrees in the last one; those in `more` have one block more on the left."""
    draw = np.random.default_rng(5)
    left, right, truth = {}, {}, {}
    for stage, count in sizes.items():
        for block in range(count):
            for ours, theirs in (("conv1", "f_a"), ("conv2", "f_b")):
                names = f"s{stage}_b{block + 1}_{ours}", f"trunk{stage}-{block}_{theirs}"
                left[names[0]], right[names[1]] = draw.standard_normal((2, 60))
                truth[names[1]] = names[0]
                if stage != max(sizes):
                    left[names[0]] = right[names[1]]
        if stage in more:
            for ours in ("conv1", "conv2"):
                left[f"s{stage}_b{count + 1}_{ours}"] = draw.standard_normal(60)
    return left, right, truth


def test_numbers_of_names_follow_from_those_of_pairs_that_agree() -> None:
    left, right, truth = _stages({1: 2, 2: 4, 3: 3, 4: 3})
    assert _entries(left, right) == truth


@pytest.mark.parametrize("surplus", [3, 4])
def test_a_stage_with_one_block_more_stays_open_and_no_other_one_does(surplus: int) -> None:
    left, right, truth = _stages({1: 2, 2: 4, 3: 3, 4: 3}, more=[surplus])
    named = {name: partner for name, partner in truth.items() if surplus != 4 or not name.startswith("trunk4")}
    assert _entries(left, right) == named


def test_names_foretell_nothing_that_one_pair_contradicts() -> None:
    left, right, truth = _stages({1: 2, 2: 4, 3: 3, 4: 3})
    one, other = "s2_b1_conv1", "s2_b3_conv1"
    crossed = {**left, one: left[other], other: left[one]}
    # The second block is the second one in all stages that agree.
    open_names = {"trunk4-0_f_a", "trunk4-2_f_a"}
    swapped = {"trunk2-0_f_a": other, "trunk2-2_f_a": one}
    found = _entries(crossed, right)
    assert open_names.isdisjoint(found)
    assert all((truth | swapped)[name] == partner for name, partner in found.items())


def _between(left: list[int], right: list[int]) -> tuple[_Values, _Values]:
    """Tensors of these sizes, of which nothing agrees, between some that agree."""
    draw = np.random.default_rng(3)
    same = draw.standard_normal((6, 50))
    sides = []
    for prefix, sizes in (("q", left), ("z", right)):
        before = {f"{prefix}{'abc'[n]}": same[n] for n in range(3)}
        middle = {f"{prefix}{'mnop'[n]}": draw.standard_normal(size) for n, size in enumerate(sizes)}
        sides.append(before | middle | {f"{prefix}{'xyz'[n]}": same[n + 3] for n in range(3)})
    return sides[0], sides[1]


@pytest.mark.parametrize(
    ("left", "right", "paired"),
    [
        ([40, 30, 40], [40, 30, 40], 3),
        ([40, 40], [40, 40], 2),
        ([40, 30], [30, 40], 0),
        ([40, 30, 40], [40, 40], 0),
        ([40], [40], 1),
        # Operators that only one side has may be of one size, too.
        ([50], [30], 0),
    ],
)
def test_as_many_tensors_of_the_same_sizes_between_two_pairs_are_partners(
    left: list[int], right: list[int], paired: int
) -> None:
    entries = _entries(*_between(left, right), is_in_order=True)
    assert {right: left for right, left in entries.items() if right[1] in "mnop"} == {
        f"z{letter}": f"q{letter}" for letter in "mnop"[:paired]
    }
    assert len(entries) == 6 + paired


def test_one_tensor_between_two_pairs_is_not_enough_where_another_of_its_size_is_open() -> None:
    left, right = _between([40], [40])
    elsewhere = {"z_other": np.random.default_rng(9).standard_normal(40)}
    assert "zm" not in _entries(left, elsewhere | right, is_in_order=True)


def _drifted(names: tuple[str, ...], far: float) -> _Values:
    draw = np.random.default_rng(1)
    values, noise = draw.standard_normal((len(names), 400)), draw.standard_normal((len(names), 400))
    return dict(zip(names, values + far * noise, strict=True))


_RIGHT = ("bar.kappa.mu.out1", "bar.sigma.tau.out2", "bar.rho.chi.out3", "bar.phi.psi.out4", "head")
_ALIKE = ("foo.x.kappa.mu", "foo.y.sigma.tau", "foo.z.rho.chi", "foo.w.phi.psi", "head")
_OTHER = ("a", "b", "c", "d", "head")


@pytest.mark.parametrize(
    ("far", "names", "paired"), [(0.1, _OTHER, 4), (0.4, _OTHER, 0), (0.4, _ALIKE, 4), (2.0, _ALIKE, 0)]
)
def test_less_nearness_is_enough_where_names_say_so_too(far: float, names: tuple[str, ...], paired: int) -> None:
    left, right = dict(_drifted(names, far)), dict(_drifted(_RIGHT, 0.0))
    # One pair agrees.
    left["head"] = right["head"]
    assert _entries(left, right) == dict(zip(_RIGHT[:paired], names, strict=False))


def test_names_say_nothing_for_what_is_near_where_one_side_has_a_tensor_more() -> None:
    """A block that one side lacks: those behind it have other numbers."""
    left, right = dict(_drifted(_ALIKE, 0.4)), dict(_drifted(_RIGHT, 0.0))
    left["head"] = right["head"]
    left["foo.v.omega.nu"] = np.random.default_rng(8).standard_normal(400)
    assert _entries(left, right) == {}


def test_a_word_of_most_names_says_nothing_against_equal_values() -> None:
    draw = np.random.default_rng(2)
    left, right = {}, {}
    for stage in range(3):
        for block in range(4):
            values = draw.standard_normal(40)
            left[f"stages.{stage}.blocks.{block}.mlp"] = right[f"features.{stage}.{block}.mlp"] = values
            right[f"features.{stage}.{block}.block"] = draw.standard_normal(40)
        left[f"stages.{stage}"] = right[f"features.{stage}"] = draw.standard_normal(40)
    entries = _entries(left, right)
    assert [entries.get(f"features.{stage}") for stage in range(3)] == [f"stages.{stage}" for stage in range(3)]


def test_what_is_called_like_several_tensors_speaks_against_none_of_their_partners() -> None:
    """The left has one operator more, behind a norm; three other norms agree under names of their own."""
    draw = np.random.default_rng(4)
    names = {"q_norm": "squeeze", "k_norm": "squeeze_1", "attn.norm": "reshape", "mlp.fc": "dense"}
    right = {f"0.{name}": draw.standard_normal(40) for name in names}
    left = {f"0.{partner}": right[f"0.{name}"] for name, partner in names.items()}
    left["0.norm_tanh"] = draw.standard_normal(40)
    assert _entries(left, right) == {f"0.{name}": f"0.{partner}" for name, partner in names.items()}


@pytest.mark.parametrize("is_contradicted", [False, True])
def test_a_weight_that_agrees_pairs_the_rest_of_its_module(is_contradicted: bool) -> None:
    """Two layers of equal sizes have other names, and other weights: nothing but their biases agrees."""
    draw = np.random.default_rng(3)
    modules = {"zeta": "quux", "omega": "bar"}
    left, right = (
        {f"{name}{end}": draw.standard_normal(size) for name in names for end, size in _OF_LAYER.items()}
        for names in (modules, modules.values())
    )
    biases = {f"{theirs}.bias": f"{ours}.bias" for ours, theirs in modules.items()}
    right |= {theirs: left[ours] for theirs, ours in biases.items()}
    whole = {f"{theirs}{end}": f"{ours}{end}" for ours, theirs in modules.items() for end in _OF_LAYER}
    if is_contradicted:
        # Another weight says that it is the other module.
        left, right = (
            left | {"zeta.running_mean": draw.standard_normal(10)},
            right | {"quux.running_mean": draw.standard_normal(10)},
        )
        right["bar.running_mean"], left["omega.running_mean"] = left["zeta.running_mean"], right["quux.running_mean"]
        whole = biases | {"bar.running_mean": "zeta.running_mean", "quux.running_mean": "omega.running_mean"}
    assert _entries(left, right) == whole


# What belongs to a layer, and its number of elements.
_OF_LAYER = {"": 20, ".weight": 60, ".bias": 9}
