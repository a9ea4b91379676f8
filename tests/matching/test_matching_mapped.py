from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from matching.made import addresses, dump, reasons, run_tensor, tensor

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.matching import MapEntry, Selection, pair_dumps
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import Missing, Pairing, TensorRef

BIAS = "Default/conv1-Conv2d/BiasAdd-op0"


def mapped(left: Dump, right: Dump, *entries: MapEntry, **more: Any) -> Pairing:
    return pair_dumps(left, right, entries=entries, **more)


def only_missing(pairing: Pairing) -> Missing:
    assert len(pairing.missing) == 1
    return pairing.missing[0]


@pytest.mark.parametrize(
    "left",
    [
        BIAS,
        BIAS.replace("/", "--"),
        f"{BIAS}:output:0",
        "Default_conv1-Conv2d_BiasAdd-op0",
        "Default_conv1-Conv2d_BiasAdd-op0:output:0",
        "Default.conv1-Conv2d.BiasAdd-op0",
        f"BiasAdd.{BIAS}",
        "BiasAdd.Default_conv1-Conv2d_BiasAdd-op0:output:0",
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_every_spelling_of_an_address_finds_the_tensor(left: str, known: bool) -> None:
    pairing = mapped(dump(run_tensor(BIAS, known=known)), dump(tensor("conv1")), MapEntry(left, "conv1", label="#1"))
    (pair,) = pairing.pairs
    assert (pair.how, pair.by, pairing.missing) == ("mapped", "#1", ())


def test_an_entry_without_slots_pairs_slot_by_slot() -> None:
    left = dump(*(run_tensor("a", f"output:{n}") for n in (0, 1, 2)))
    right = dump(*(tensor("x", f"output:{n}") for n in (1, 2, 3)))
    pairing = mapped(left, right, MapEntry("a", "x", label="#1"))
    assert [(p.left.key.slot, p.right.key.slot) for p in pairing.pairs] == [(1, 1), (2, 2)]
    assert reasons(pairing) == {"a:output:0": "#1 pairs it with x, which has no tensor left for this slot"}
    assert not pairing.missing


def test_two_outputs_on_one_side_are_not_guessed() -> None:
    left = dump(run_tensor("a", "output:1"), run_tensor("a", "output:2"))
    pairing = mapped(left, dump(tensor("x")), MapEntry("a", "x"))
    assert not pairing.pairs
    assert "a on the left side has output:1, output:2; x on the right side has output:0" in only_missing(pairing).reason


def test_a_slot_on_one_side_means_the_same_or_the_only_one_on_the_other() -> None:
    left = dump(run_tensor("a", "input:1"), run_tensor("a"))
    assert addresses(mapped(left, dump(tensor("x")), MapEntry("a:input:1", "x")))[0][:2] == ("a:input:1", "x:output:0")
    both = dump(tensor("x"), tensor("x", "input:1"))
    assert addresses(mapped(left, both, MapEntry("a:input:1", "x")))[0][:2] == ("a:input:1", "x:input:1")
    several = dump(tensor("x"), tensor("x", "output:1"))
    assert "(asked for: input:1)" in only_missing(mapped(left, several, MapEntry("a:input:1", "x"))).reason
    mirrored = mapped(dump(tensor("x")), left, MapEntry("x", "a:input:1"))
    assert addresses(mirrored)[0][:2] == ("x:output:0", "a:input:1")


def test_a_files_own_name_goes_before_another_operators_mangled_one() -> None:
    """Where the graph numbers them the other way round, each file has the other operator's mangled name."""
    names = {"D/Add-op0": "D_Add-op2", "D/Add-op2": "D_Add-op0"}
    files = {true: run_tensor(true) for true in names}
    left = dump(*(renamed(files[true], name) for true, name in names.items()))
    entries = [MapEntry(f"D_Add-op{number}", right) for number, right in ((0, "a"), (2, "b"))]
    pairing = mapped(left, dump(tensor("a"), tensor("b")), *entries)
    found = {(pair.left.key.op.name, pair.right.key.op.name) for pair in pairing.pairs}
    assert (found, pairing.missing) == ({("D_Add-op0", "a"), ("D_Add-op2", "b")}, ())


def renamed(ref: TensorRef, name: str) -> TensorRef:
    return replace(ref, key=ref.key._replace(op=ref.key.op._replace(name=name)))


def test_an_entry_that_names_two_operators_is_ambiguous_and_missing() -> None:
    left = dump(run_tensor("x", op_type="Parameter"), run_tensor("x", op_type="MatMul"))
    missing = only_missing(mapped(left, dump(tensor("ref")), MapEntry("x", "ref")))
    assert missing.reason.startswith(
        "ambiguous: the entry names Parameter.x, MatMul.x on the left and ref on the right"
    )


@pytest.mark.parametrize(("name", "value"), [("rank", 1), ("net", "B"), ("graph", 1), ("iteration", 1)])
def test_an_entry_may_be_kept_to_one_coordinate_of_the_left(name: str, value: Any) -> None:
    other = {"net": "A"}.get(name, 0)
    side = dump(run_tensor("a", **{name: other}), run_tensor("a", **{name: value}), run_tensor("b", **{name: value}))
    pairing = mapped(side, side, MapEntry("a", "b", **{name: value}))
    (pair,) = (pair for pair in pairing.pairs if pair.how == "mapped")
    assert getattr(pair.left.key.op.at, name) == value
    (named,) = (pair for pair in pairing.pairs if pair.how == "name")
    assert getattr(named.left.key.op.at, name) == other


@pytest.mark.parametrize("right", [("x", "x"), ("x:output:0", "x"), ("x", "T.x")])
def test_entries_that_name_one_right_tensor_are_a_pair_each_and_it_counts_once(right: tuple[str, str]) -> None:
    left, entries = dump(run_tensor("a"), run_tensor("b")), [MapEntry(*pair) for pair in zip("ab", right, strict=True)]
    pairing = mapped(left, dump(tensor("x", op_type="T"), tensor("y")), *entries)
    assert addresses(pairing) == [("a:output:0", "x:output:0", "mapped"), ("b:output:0", "x:output:0", "mapped")]
    assert (pairing.missing, pairing.unmatched_left) == ((), ())
    assert (pairing.right_paired, pairing.right_total) == (1, 2)


@pytest.mark.parametrize(
    "other",
    ["a/b", "a/b:output:0", "a_b", "T.a/b"],
)
def test_two_entries_naming_one_left_tensor_are_refused_with_both_labels(other: str) -> None:
    left, right = dump(run_tensor("a/b", op_type="T")), dump(tensor("x"), tensor("y"))
    for entries in (("a/b", other), (other, "a/b")):
        first, second = (MapEntry(text, ref, label=f"#{ref}") for text, ref in zip(entries, "xy", strict=True))
        with pytest.raises(ConfigError, match="#x and #y both name the left tensor"):
            mapped(left, right, first, second)


@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [
        (["a"], ["other"], "no operator x on the right side"),
        (["other"], ["x"], "no operator a on the left side"),
        (["a"], [], "the right side is empty"),
        ([], ["x"], "the left side is empty"),
    ],
)
def test_an_entry_with_a_side_absent_is_missing(left: list[str], right: list[str], reason: str) -> None:
    pairing = mapped(dump(*map(run_tensor, left)), dump(*map(tensor, right)), MapEntry("a", "x"))
    assert (only_missing(pairing).left, only_missing(pairing).right) == ("a", "x")
    assert only_missing(pairing).reason == reason


def test_an_entry_whose_tensors_never_meet_is_missing_and_names_the_coordinate() -> None:
    right = dump(tensor("x"), tensor("y", iteration=1))
    missing = only_missing(mapped(dump(run_tensor("a", iteration=3)), right, MapEntry("a", "x")))
    assert "x: the right side has it in iteration 0 only, not in iteration 3" in missing.reason


@pytest.mark.parametrize("name", ["rank", "iteration", "graph"])
@pytest.mark.parametrize("lacking", ["left", "right"])
def test_a_mapped_tensor_lost_at_one_place_of_both_runs_is_missing(name: str, lacking: str) -> None:
    places = [{name: 0}, {name: 1}]
    whole = [run_tensor(op, **place) for place in places for op in ("a", "z")]
    holed = [*whole[:2], whole[3]]
    left, right = (holed, whole) if lacking == "left" else (whole, holed)
    pairing = mapped(dump(*left), dump(*right), MapEntry("a", "a"))
    assert f"no operator a on the {lacking} side at (" in only_missing(pairing).reason
    assert f"{name} 1" in only_missing(pairing).reason
    assert len([pair for pair in pairing.pairs if pair.how == "mapped"]) == 1


RANKS = (run_tensor("a", rank=0), run_tensor("z", rank=0), run_tensor("z", rank=1))


@pytest.mark.parametrize("entry", [MapEntry("a", "x", rank=0), MapEntry("typo", "x", rank=0), MapEntry("a", "x")])
def test_an_entry_outside_the_selection_asks_for_nothing(entry: MapEntry) -> None:
    selection = Selection(rank=frozenset({1}))
    pairing = mapped(dump(*RANKS), dump(tensor("x"), tensor("z")), entry, selection=selection)
    assert pairing.missing == ()
    if entry.rank is None:
        assert reasons(pairing, "right") == {
            "x:output:0": "map entry 1 pairs it with a, which the selection leaves out"
        }
    assert [pair.left.key.op.name for pair in pairing.pairs] == ["z"]


def test_a_tensor_lost_at_the_selected_rank_is_missing_though_another_rank_has_it() -> None:
    right = dump(run_tensor("a", rank=0), run_tensor("a", rank=1), run_tensor("z", rank=1))
    pairing = mapped(dump(*RANKS), right, MapEntry("a", "a"), selection=Selection(rank=frozenset({1})))
    assert "no operator a on the left side at (rank 1" in only_missing(pairing).reason


def test_a_tensor_whose_mapped_partner_is_absent_is_not_paired_by_name_instead() -> None:
    pairing = mapped(dump(run_tensor("a")), dump(tensor("a")), MapEntry("a", "gone", label="#1"))
    assert not pairing.pairs
    assert reasons(pairing) == {"a:output:0": "#1 pairs it with gone: no operator gone on the right side"}
    assert "kept for a map entry" in reasons(pairing, "right")["a:output:0"]


CALLS = {
    "a later call with an earlier one": (MapEntry("relu@1", "relu@0"), (2, 2), {(1, 0)}),
    "an earlier call with a later one": (MapEntry("relu@0", "relu@1"), (2, 2), {(0, 1)}),
    "with a slot": (MapEntry("relu@1:output:0", "relu@0:output:0"), (2, 2), {(1, 0)}),
    "of three": (MapEntry("relu@2", "relu@0"), (3, 3), {(2, 0), (1, 1)}),
    "of one iteration": (MapEntry("relu@1", "relu@0", iteration=0), (2, 2), {(1, 0)}),
    "of one rank": (MapEntry("relu@1", "relu@0", rank=0), (2, 2), {(1, 0)}),
    "each with itself": (MapEntry("relu", "relu"), (2, 2), {(0, 0), (1, 1)}),
    "another operator": (MapEntry("fc", "relu@0"), (2, 2), {(0, 0), (1, 1)}),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_call_that_an_entry_names_is_no_partner_of_another_call(what: str) -> None:
    entry, calls, expected = CALLS[what]
    left, right = (
        dump(*(make("relu", occurrence=n) for n in range(count)), make("fc"))
        for make, count in zip((run_tensor, tensor), calls, strict=True)
    )
    pairing = mapped(left, right, entry)
    found = [(pair.left.key.op, pair.right.key.op) for pair in pairing.pairs]
    if what == "another operator":
        assert [(one.label, other.label, other.at.occurrence) for one, other in found] == [
            ("relu", "relu", 1),
            ("fc", "relu", 0),
        ]
        return
    assert {(one.at.occurrence, other.at.occurrence) for one, other in found if one.label == "relu"} == expected
    assert sum(one.label == "fc" for one, _ in found) == 1
