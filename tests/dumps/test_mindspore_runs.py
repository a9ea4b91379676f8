from pathlib import Path

import pytest
from dump_builder import START

from pytest_msdump.core.dumps.reruns import separate_tree_runs
from pytest_msdump.core.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec

ROOT = Path("/dump")
DATE = "20260131235959"
ONE_FOLDER = "0/Net_graph_0/0/0"


def tensor(op, time, *, folder=ONE_FOLDER, io="output", graph=0, iteration=0, suffix=""):
    at = Coordinates(rank=0, net="Net", graph=graph, iteration=iteration, occurrence=0)
    time = None if time is None else START + time
    source = TensorSource.of(ROOT / folder / f"{op}.{op}.1.{time}{suffix}", time)
    return TensorRef(TensorKey(OpKey(op, at, op), io, 0), TensorSpec(), source, "ascend")


def runs(*ops, folder=ONE_FOLDER, start=1000, step=10):
    return [tensor(op, start + step * position, folder=folder) for position, op in enumerate(ops)]


def steps(repeats):
    return [
        (ref.key.op.name, ref.key.op.at.iteration, ref.key.op.at.occurrence)
        for ref in sorted(repeats.newest, key=lambda ref: ref.source.timestamp)
    ]


# What was written, in order of time, into one directory, and the iteration of each; a loop's later passes have a point.
STEPS = {
    "told apart by time": ("ababab", "a0 b0 a1 b1 a2 b2"),
    "that overlap in time, but repeat alike": ("abacbc", "a0 b0 a1 c0 b1 c1"),
    "of which the last was cut short, with a loop within": ("abbabbab", "a0 b0 b0. a1 b1 b1. a2 b2"),
}


@pytest.mark.parametrize("law", STEPS)
def test_steps_that_lie_in_one_directory_are(law):
    written, expected = STEPS[law]
    repeats = separate_tree_runs(ROOT, runs(*written))
    told = " ".join(f"{op}{iteration}{'.' * occurrence}" for op, iteration, occurrence in steps(repeats))
    assert (told, repeats.older, len(repeats.notes)) == (expected, (), 1)
    last = max(ref.key.op.at.iteration for ref in repeats.newest)
    assert repeats.notes[0] == (
        "every operator of device 0, net Net, graph 0 was dumped several times into one directory (a training without "
        f"data sinking): split by time into the iterations 0 to {last}"
    )


def test_numbers_that_are_no_times_tell_no_steps():
    repeats = separate_tree_runs(ROOT, runs("a", "b", "a", "b", start=1 - START))
    assert {(ref.key.op.at.iteration, ref.key.op.at.occurrence) for ref in repeats.newest} == {(0, 0)}
    assert repeats.notes == ()


@pytest.mark.parametrize("ops", ["ab", "aab", "ababc", "aabba", "abbbaab", "ababb"])
def test_where_no_steps_can_be_told_nothing_is_split(ops):
    repeats = separate_tree_runs(ROOT, runs(*ops))
    assert {ref.key.op.at.iteration for ref in (*repeats.newest, *repeats.older)} == {0}
    assert not any("split by time" in note for note in repeats.notes)
    assert len(repeats.newest) + len(repeats.older) == len(ops)


@pytest.mark.parametrize("folder", ["rank_0/Net/0/0", "0/Net/0/0", f"{DATE}/0/Net/0/0", ""])
def test_only_the_first_asynchronous_layout_mixes_steps(folder):
    repeats = separate_tree_runs(ROOT, runs("a", "b", "a", "b", folder=folder))
    assert (len(repeats.newest), len(repeats.older)) == (2, 2)
    assert repeats.notes[0].startswith("re-run into the same directory")


def test_graphs_are_split_each_for_itself_from_the_paths_iteration_on():
    one = [tensor("a", time, folder="0/Net_graph_0/0/5", iteration=5) for time in (1, 2)]
    other = [tensor("a", time, folder="0/Net_graph_1/1/0", graph=1) for time in (3, 4, 5)]
    repeats = separate_tree_runs(ROOT, [*one, *other])
    assert {(ref.key.op.at.graph, ref.key.op.at.iteration) for ref in repeats.newest} == {
        (0, 5),
        (0, 6),
        (1, 0),
        (1, 1),
        (1, 2),
    }
    assert len(repeats.notes) == 2


def in_step(op, time, step, index, *, date=DATE):
    return tensor(op, time, folder=f"{step}/{date}/0/Net/0/{index}", iteration=step)


def test_a_devices_own_count_below_a_step_numbers_occurrences():
    refs = [in_step("a", 1, 3, 7), in_step("b", 2, 3, 7), in_step("a", 3, 3, 8), in_step("b", 4, 3, 8)]
    repeats = separate_tree_runs(ROOT, refs)
    assert steps(repeats) == [("a", 3, 0), ("b", 3, 0), ("a", 3, 1), ("b", 3, 1)]
    assert repeats.older == repeats.notes == ()


def test_occurrences_count_on_from_those_of_lower_counts_of_the_same_step_and_operator():
    refs = [in_step("a", 1, 3, 0), in_step("b", 2, 3, 0), in_step("a", 3, 3, 0), in_step("c", 4, 3, 0)]
    refs += [in_step("a", 11, 3, 1), in_step("b", 12, 3, 1), in_step("a", 21, 4, 1)]
    assert steps(separate_tree_runs(ROOT, refs)) == [
        ("a", 3, 0),
        ("b", 3, 0),
        ("a", 3, 1),
        ("c", 3, 0),
        ("a", 3, 2),
        ("b", 3, 1),
        ("a", 4, 0),
    ]


def test_two_times_below_one_step_are_a_re_run():
    later = "20260201000000"
    refs = [in_step("a", 1, 3, 0), in_step("b", 2, 3, 0)]
    refs += [in_step("a", 101, 3, 0, date=later), in_step("b", 102, 3, 0, date=later)]
    repeats = separate_tree_runs(ROOT, refs)
    assert {ref.source.timestamp - START for ref in repeats.newest} == {101, 102}
    assert repeats.notes == ("re-run into the same directory: 2 older files left out of rank 0, net Net, iteration 3",)
