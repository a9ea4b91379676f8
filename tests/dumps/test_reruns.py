from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from dump_builder import START
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.core.dumps.reruns import separate_runs
from pytest_msdump.core.model.dump import placed_by_time
from pytest_msdump.core.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec

# A time long after a run.
FAR = 60_000_000


def tensor(
    op, time, io="output", slot=0, *, graph=0, iteration=0, rank=0, net="Net", flat=False, truly=None, dtype=None
):
    """One dumped tensor. `op` is "name" or "Type.name"; a flat one has no coordinates but its iteration."""
    op_type, _, name = op.rpartition(".")
    at = Coordinates(iteration=iteration) if flat else Coordinates(rank, net, graph, iteration)
    key = OpKey(name, at, None if flat else op_type or "Op", truly)
    path = Path(f"{graph}/{iteration}/{dtype}/{truly}/{op}.{io}.{slot}.{time}.npy")
    return TensorRef(TensorKey(key, io, slot), TensorSpec(dtype), TensorSource.of(path, START + time), "test")


def sequence(text, *, start=0, step=1, **where):
    """Tensors one after the other: "a b a" is operator a, then b, then a again."""
    return [tensor(op, start + step * position, **where) for position, op in enumerate(text.split())]


def found(refs):
    """(operator, io, slot, occurrence) in order of time."""
    return [(r.key.op.name, r.key.io, r.key.slot, r.key.op.at.occurrence) for r in refs]


def occurrences(refs):
    return [(r.key.op.name, r.key.op.at.occurrence) for r in refs]


def names(refs):
    return "".join(r.key.op.name for r in refs)


def partial(repeats):
    return repeats.partial and (repeats.partial.newer, repeats.partial.tensors)


# Each law: what was written from which time on, what is compared (NAME.OCCURRENCE@TIME), what is left out, and how many
# of all tensors a partial second run holds.
STORIES = {
    "without repeats": ({0: "a b c"}, "a@0 b@1 c@2", "", None),
    "interleaved repeats are occurrences": ({0: "a b a b c"}, "a@0 b@1 a.1@2 b.1@3 c@4", "", None),
    "repeats after the whole first pass": ({0: "a b c a b c"}, "a@3 b@4 c@5", "abc", None),
    "of three runs the last": ({0: "a b c a b c a b c"}, "a@6 b@7 c@8", "abcabc", None),
    "one newer parameter": ({0: "a b P.p P.q P.r", FAR: "P.q"}, f"a@0 b@1 p@2 r@4 q@{FAR}", "q", (1, 5)),
    "one newer operator": ({0: "a b c P.p", FAR: "b"}, f"a@0 c@2 p@3 b@{FAR}", "b", (1, 4)),
    "a newer parameter among the others": ({0: "a b P.p P.p P.q P.r"}, "a@0 b@1 p@3 q@4 r@5", "p", (1, 5)),
    "what the third run lacks is of the second, then of the first": (
        {0: "a b c d", 10_000: "a b", 20_000: "a"}, "c@2 d@3 b@10001 a@20000", "aba", (1, 4),
    ),
    "a stray file after two whole runs": (
        {0: "a b c P.p", 100: "a b c P.p", FAR: "P.p"}, f"a@100 b@101 c@102 p@{FAR}", "abcpp", (1, 4),
    ),
    "a newer first pass of a loop leaves the later passes": (
        {0: "l b l b l e P.p", FAR: "l P.p"}, f"b@1 l.1@2 b.1@3 l.2@4 e@5 l@{FAR} p@{FAR + 1}", "lp", (2, 7),
    ),
    "a loop repeated as a whole": (
        {0: "l b l b l e", 5000: "l b l b l e"}, "l@5000 b@5001 l.1@5002 b.1@5003 l.2@5004 e@5005", "lblble", None,
    ),
    # The condition is computed once more after the last pass, and at the pace of the rest.
    "a loop at the end": (
        {0: "l", 31_000: "b", 31_300: "l", 31_900: "b", 32_200: "l"},
        "l@0 b@31000 l.1@31300 b.1@31900 l.2@32200", "", None,
    ),
    "a module used again at the end": ({0: "conv1 relu conv2 relu"}, "conv1@0 relu@1 conv2@2 relu.1@3", "", None),
    "fewer operators much later": (
        {0: "conv1", 300: "relu", 600: "conv2", FAR: "relu"}, f"conv1@0 conv2@600 relu@{FAR}", "relu", (1, 3),
    ),
    # The second run has no c, so c is compared from the first.
    "a repeated parameter, although operators interleave": (
        {0: "a b a c P.p P.q", 10: "a b a d P.p P.q"}, "c@3 a@10 b@11 a.1@12 d@13 p@14 q@15", "abapq", (5, 7),
    ),
    "parameters alone": ({0: "P.p P.q P.p P.q"}, "p@2 q@3", "pq", None),
    "killed between two parameters": ({0: "a b P.p P.q", 10: "a b P.p"}, "q@3 a@10 b@11 p@12", "abp", (3, 4)),
    "parameters written once": ({0: "a b a b c P.p P.q"}, "a@0 b@1 a.1@2 b.1@3 c@4 p@5 q@6", "", None),
}  # fmt: skip


@pytest.mark.parametrize("law", STORIES)
def test_the_newest_file_of_each_tensor_is_compared_and_a_loop_is_no_second_run(law):
    written, compared, left_out, partly = STORIES[law]
    refs = [ref for start, text in written.items() for ref in sequence(text.replace("P.", "Parameter."), start=start)]
    repeats = separate_runs(refs)
    told = [
        f"{ref.key.op.name}{f'.{ref.key.op.at.occurrence}' if ref.key.op.at.occurrence else ''}"
        f"@{ref.source.timestamp - START}"
        for ref in repeats.newest
    ]
    assert (" ".join(told), names(repeats.older), partial(repeats)) == (compared, left_out, partly)
    assert bool(repeats.notes) == bool(left_out)


@pytest.mark.parametrize(
    ("written", "compared"),
    [
        ({0: "a b a b c"}, [0, 1, 2, 3, 4]),
        ({0: "a b c a b c"}, [3, 4, 5]),
        ({0: "conv1 relu conv2 relu"}, [0, 1, 2, 3]),
        # Written twice without a pause.
        ({0: "a", 900: "b a", 1000: "b"}, [901, 1000]),
    ],
)
def test_a_flat_folder_is_read_alike(written, compared):
    refs = [ref for start, text in written.items() for ref in sequence(text, start=start, flat=True)]
    assert [ref.source.timestamp - START for ref in separate_runs(refs).newest] == compared


def test_operators_of_a_partial_second_run_keep_their_places_in_the_first():
    repeats = separate_runs([*sequence("a b c d"), *sequence("a b", start=5000), *sequence("a", start=5_000_000)])
    ordered = placed_by_time(repeats.newest, repeats.partial)
    assert [(ref.key.op.name, ref.place) for ref in ordered] == [("a", 0), ("b", 1), ("c", 2), ("d", 3)]


@pytest.mark.parametrize("base", [0, 10**9, 10**18])
@pytest.mark.parametrize(
    "text", ["a b c a b c", "a b a c", "a Parameter.p a Parameter.p", "a b Parameter.p Parameter.p"]
)
@pytest.mark.parametrize("flat", [False, True])
def test_numbers_that_are_no_times_make_neither_a_rerun_nor_an_occurrence(base, text, flat):
    repeats = separate_runs(sequence(text, start=base - START, flat=flat))
    assert len(repeats.newest) == len(text.split())
    assert {ref.key.op.at.occurrence for ref in repeats.newest} == {0}
    assert repeats.older == repeats.notes == ()


def test_files_without_a_time_are_no_rerun_of_each_other():
    refs = [replace(ref, source=TensorSource.of(Path(f"{n}.bin"))) for n, ref in enumerate(sequence("a b a b"))]
    assert len(separate_runs(refs).newest) == 4


def test_a_rerun_is_told_in_one_sentence_that_says_where():
    assert separate_runs(sequence("a a a", rank=1, iteration=3)).notes == (
        "re-run into the same directory: 2 older files left out of rank 1, net Net, iteration 3",
    )
    assert separate_runs(sequence("a a", flat=True)).notes == (
        "re-run into the same directory: 1 older file left out of iteration 0",
    )


def test_an_output_slot_missing_in_one_pass_keeps_its_number_in_the_next():
    refs = [
        tensor("a", 0, "output", 0),
        tensor("a", 1, "output", 0),
        tensor("a", 2, "output", 1),
        tensor("a", 3, "output", 0),
        tensor("a", 4, "output", 1),
        tensor("b", 5),
    ]
    assert found(separate_runs(refs).newest)[:5] == [
        ("a", "output", 0, 0),
        ("a", "output", 0, 1),
        ("a", "output", 1, 1),
        ("a", "output", 0, 2),
        ("a", "output", 1, 2),
    ]


def spelled_alike(start=0):
    """Two operators whose names become one in names of files."""
    return [tensor("a_b_c", start + n, truly=name, dtype="float32") for n, name in enumerate(("a/b_c", "a_b/c"))]


def test_operators_whose_files_have_one_name_are_no_rerun_of_each_other():
    repeats = separate_runs(spelled_alike())
    assert [(ref.key.op.true_name, ref.key.op.at.occurrence) for ref in repeats.newest] == [("a/b_c", 0), ("a_b/c", 0)]
    assert not repeats.older


@pytest.mark.parametrize("unreadable", [0, 1])
def test_a_file_that_cannot_be_read_is_of_the_operator_of_its_name(unreadable):
    # Whichever run was cut short: nobody knows its true name, and it is a rerun all the same.
    refs = [tensor("a_b", 10**8 * run, truly="a/b", dtype="float32") for run in (0, 1)]
    refs[unreadable] = tensor("a_b", 10**8 * unreadable)
    repeats = separate_runs(refs)
    assert [(ref.key.op.true_name, ref.source.timestamp - START) for ref in repeats.newest] == [("a/b", 10**8)]
    assert len(repeats.older) == 1


TENSORS = st.builds(
    tensor,
    st.sampled_from(["a", "b", "Parameter.p"]),
    st.integers(0, 30),
    st.sampled_from(["input", "output"]),
    st.integers(0, 1),
    graph=st.integers(0, 1),
    iteration=st.integers(0, 1),
    truly=st.sampled_from([None, None, "x/a", "x/b"]),
    dtype=st.sampled_from([None, "float32"]),
)


@settings(deadline=None, max_examples=300)
@given(st.lists(TENSORS, max_size=14))
def test_every_tensor_is_in_one_of_both_lists_and_no_two_have_one_key(refs):
    repeats = separate_runs(refs)
    paths = Counter(ref.source.path for ref in (*repeats.newest, *repeats.older))
    assert paths == Counter(ref.source.path for ref in refs)
    assert len({ref.key for ref in repeats.newest}) == len(repeats.newest)
    assert bool(repeats.older) == bool(repeats.notes)
    # What was left out, was left out for a newer file of the same tensor.
    newest = {
        (ref.key.op.name, ref.key.io, ref.key.slot, ref.key.op.at.graph, ref.key.op.at.iteration): ref
        for ref in repeats.newest
    }
    for ref in repeats.older:
        op = ref.key.op
        newer = newest[op.name, ref.key.io, ref.key.slot, op.at.graph, op.at.iteration]
        assert newer.source.timestamp >= ref.source.timestamp


@settings(deadline=None, max_examples=100)
@given(st.lists(TENSORS, max_size=14), st.randoms(use_true_random=False))
def test_the_order_in_which_files_are_listed_does_not_matter(refs, random):
    shuffled = list(refs)
    random.shuffle(shuffled)
    assert separate_runs(shuffled) == separate_runs(refs)


def once(refs):
    return separate_runs(refs, once={(refs[0].key.op.at.rank, refs[0].key.op.at.iteration)})


def test_what_ran_once_by_the_runs_own_word_is_a_loop_whatever_its_pauses():
    refs = [*sequence("a b"), *sequence("a b", start=900_000)]
    assert separate_runs(refs).older
    assert occurrences(once(refs).newest) == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    assert not once(refs).older


def test_a_run_that_was_killed_before_it_could_say_so_is_found_by_the_time_a_program_takes_to_start():
    refs = [*sequence("a b"), *sequence("a b", start=2_000_000)]
    assert [ref.key.op.name for ref in once(refs).older] == ["a", "b"]


def test_parameters_that_repeat_tell_of_a_re_run_by_themselves():
    refs = [*sequence("a Parameter.p"), *sequence("a Parameter.p", start=900)]
    assert len(once(refs).older) == 2
