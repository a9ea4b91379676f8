"""A sequence computed token by token against one pass: steps are joined by the ids of their tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.shards.model import TokenRuns
from pytest_msdump.capabilities.shards.views import TokenView
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.dump import DistributedRank
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.suite import load_suite
from pytest_msdump.core.text import say
from pytest_msdump.record import DumpWriter

# -- the oracle: a causal attention layer of numpy, which gives a token the same row in one pass and by a cache --------

WIDTH, WORDS = 8, 50
DRAW = np.random.default_rng(0)
EMBED, QUERY, KEY, VALUE = (DRAW.normal(size=shape) for shape in [(WORDS, WIDTH), *[(WIDTH, WIDTH)] * 3])


class Model:
    """One layer; `forget` is a step in which the cache has lost all but its own token."""

    def __init__(self, forget=None):
        self.cache, self.step, self.forget = [], -1, forget

    def __call__(self, ids):
        """Take the next tokens of some sequences of one length; return what each module gave."""
        self.step += 1
        x = EMBED[ids]
        before = self.cache[-1][0].shape[1] if self.cache else 0
        key, value = (
            np.concatenate([*(kept[n] for kept in self.cache[-1:]), x @ weight], 1)
            for n, weight in enumerate((KEY, VALUE))
        )
        self.cache.append((key, value))
        scores = x @ QUERY @ key.transpose(0, 2, 1) / WIDTH
        at = np.arange(before, before + ids.shape[1])
        scores[:, at[:, None] < np.arange(key.shape[1])] = -np.inf
        if self.step == self.forget:
            scores[:, :, :-1] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        attention = weights / weights.sum(-1, keepdims=True) @ value
        return {"ids": ids, "embed": x, "attention": attention, "out": x + attention}


IDS = DRAW.integers(1, WORDS, (2, 9))
STEPS = ["iteration", "occurrence"]


def save(root, tensors, iteration=0):
    """One pass, in a folder of its number."""
    folder = root / f"{iteration}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in tensors.items():
        np.save(
            folder / f"{name}.0.{1_700_000_000_000_000 + iteration}.npy",
            values if name == "ids" else values.astype("f4"),
        )


def run(root, pieces, by="iteration", *, forget=None, change=lambda _step, tensors: tensors):
    """Compute the ids piece by piece, each a step."""
    model = Model(forget)
    steps = [change(step, model(ids)) for step, ids in enumerate(pieces)]
    if by == "iteration":
        for step, tensors in enumerate(steps):
            save(root, tensors, step)
        return
    with DumpWriter(root) as writer:
        for tensors in steps:
            for name, values in tensors.items():
                writer.write(name, values if name == "ids" else values.astype("f4"))


def by_token(ids, prefill):
    return [ids[:, :prefill], *np.split(ids[:, prefill:], ids.shape[1] - prefill, 1)]


def planned(folder, text):
    (folder / "m.toml").write_text(f'[msdump]\nleft = "left"\nright = "right"\n[msdump.shards]\n{text}', "utf-8")
    return plan(load_suite(file=Path("m.toml"), options={}, directory=folder))


def compare(folder, steps="iteration", more=""):
    made = planned(folder, f'tokens = {{ ids = "ids", steps = "{steps}"{more} }}\n')
    records = build_report(made, compare_plan(made)).records
    return {one.left.address.rpartition(":output")[0]: one for one in records}, made


@pytest.mark.parametrize("steps", STEPS)
def test_prefill_and_decode_equal_one_pass(tmp_path, steps):
    run(tmp_path / "left", by_token(IDS, 4), steps)
    run(tmp_path / "right", [IDS], steps)
    found, made = compare(tmp_path, steps)
    assert {name: (one.verdict.outcome, one.left.shape) for name, one in found.items()} == {
        "ids": ("pass", (18,)),
        **dict.fromkeys(("embed", "attention", "out"), ("pass", (18, WIDTH))),
    }
    assert found["ids"].equal
    assert made.pairing.unmatched_left == made.pairing.unmatched_right == ()


def test_a_fault_of_one_step_is_told_at_its_token(tmp_path):
    run(tmp_path / "left", by_token(IDS, 4), forget=3)
    run(tmp_path / "right", [IDS])
    found, _ = compare(tmp_path)
    assert {name: one.verdict.outcome for name, one in found.items()} == {
        "ids": "pass",
        "embed": "pass",
        "attention": "fail",
        "out": "fail",
    }
    # Step 3 has token 6 of both sequences of 9.
    assert found["attention"].places["max_absolute_error"][0] in (6, 15)


def disturbed(first, rows):
    """From a step on, attention of some sequences has other values."""

    def change(step, tensors):
        attention = tensors["attention"].copy()
        if step >= first:
            attention[rows] += 1 + np.arange(WIDTH) % 3
        return {**tensors, "attention": attention}

    return change


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        ({"forget": 3}, {}, "sequence 0 and 1 at token 6 (step 3 of the left)"),
        ({"change": disturbed(2, slice(None))}, {}, "sequence 0 and 1 from token 5 on (step 2 of the left)"),
        ({"change": disturbed(2, slice(1, 2))}, {}, "sequence 1 from token 5 on (step 2 of the left)"),
        ({}, {"change": disturbed(2, slice(None))}, "sequence 0 and 1 from token 5 on (step 2 of the right)"),
    ],
)
def test_a_diagnosis_names_sequence_token_and_step(tmp_path, left, right, said):
    sides = {"left": left, "right": right}
    for side, more in sides.items():
        run(tmp_path / side, by_token(IDS, 4) if more or left is sides["right"] else [IDS], **more)
    made = planned(tmp_path, 'tokens = { ids = "ids", steps = "iteration" }\n')
    records = build_report(made, compare_plan(made)).records
    cause = next(one for one in records if one.role == "cause")
    (found,) = [one for one in cause.diagnosis if one.confidence == "high"]
    assert say(found.evidence) == f"only this differs: {said}"
    assert found.details["sequences"][-1]["sequence"] == 1


def test_the_longer_run_is_compared_as_far_as_the_other_goes_and_that_is_said(tmp_path):
    run(tmp_path / "left", by_token(IDS[:, :7], 4))
    run(tmp_path / "right", [IDS])
    found, made = compare(tmp_path)
    assert {(one.verdict.outcome, one.right.shape[0]) for one in found.values()} == {("pass", 14)}
    told = "14 of 18 tokens are those of a sequence that all sides have; the rest is not compared"
    assert (told in made.right.notes, told in made.left.notes) == (True, False)


def test_padding_of_each_step_is_left_out(tmp_path):
    """The prompts have two lengths, and the shorter one is padded: on the right before decoding, and never again."""
    short, long = IDS[0], IDS[1]
    made = {}
    for row, ids, prompt in ((0, short, 2), (1, long, 4)):
        model = Model()
        made[row] = [model(piece) for piece in by_token(ids[None, : prompt + 3], prompt)]
    for step in range(4):
        tensors = {}
        for name in ("ids", "out"):
            rows = [made[row][step][name][0] for row in range(2)]
            gap = len(rows[1]) - len(rows[0])
            padding = np.full((gap, *rows[0].shape[1:]), 0 if name == "ids" else 77, rows[0].dtype)
            tensors[name] = np.stack([np.concatenate([rows[0], padding]), rows[1]])
        mask = tensors["ids"] != 0
        # As long as all that was there before, as attention masks are.
        tensors["mask"] = np.concatenate([np.ones((2, 5 * step), int), mask.astype(int)], 1)
        save(tmp_path / "left", tensors, step)
    whole = {}
    for name in ("ids", "out"):
        rows = [np.concatenate([step[name][0] for step in made[row]]) for row in range(2)]
        padding = np.full((2, *rows[0].shape[1:]), 0 if name == "ids" else 55, rows[0].dtype)
        whole[name] = np.stack([np.concatenate([padding, rows[0]]), rows[1]])
    save(tmp_path / "right", {**whole, "mask": (whole["ids"] != 0).astype(int)})
    for more in (', pad = 0, match = ["ids", "out"]', ', mask = "mask", match = ["ids", "out"]'):
        found, _ = compare(tmp_path, more=more)
        assert (found["out"].equal, found["out"].left.shape) == (True, (12, WIDTH))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda _step, one: {**one, "out": one["out"].sum(1)}, "does not begin with that of the ids, (2, 4)"),
        (lambda step, one: {**one, "out": one["out"][..., : 8 - step]}, "in each step and go on alike"),
        (
            lambda step, one: {name: v for name, v in one.items() if name != "out" or step},
            "it is in 5 of the 6 steps that have ids",
        ),
    ],
)
def test_what_cannot_be_joined_is_an_error_of_its_tensor(tmp_path, change, sentence):
    run(tmp_path / "left", by_token(IDS, 4), change=change)
    run(tmp_path / "right", [IDS])
    found, _ = compare(tmp_path)
    assert found["out"].verdict.outcome == "error"
    assert sentence in found["out"].verdict.findings[0].sentence
    assert found["attention"].verdict.outcome == "pass"


@pytest.mark.parametrize(
    ("left", "right", "said"),
    [
        (by_token(IDS, 4), [np.where(IDS[1, 5] == IDS, IDS + 1, IDS) % WORDS], "have other tokens"),
        ([IDS[:, :4], IDS[:1, 4:]], [IDS], "other numbers of sequences on the left side"),
        (by_token(IDS[[0, 0]], 4), [IDS[[0, 0], :8]], "their order is ambiguous"),
        (by_token(IDS, 4), [IDS[:1]], "have other tokens"),
    ],
)
def test_other_sequences_are_refused(tmp_path, left, right, said):
    for side, pieces in (("left", left), ("right", right)):
        for step, ids in enumerate(pieces):
            save(tmp_path / side, {"ids": ids}, step)
    with pytest.raises(ConfigError, match=said):
        compare(tmp_path)


# -- steps of ranks ----------------------------------------------------------------------------------------------------

RANKS = 'tokens = { ids = "ids", steps = "occurrence", match = ["ids", "out"] }\n'


def ranks(folder, stale=None, lacking=None):
    model = Model()
    steps = [model(ids) for ids in by_token(IDS, 4)]
    for rank in range(4):
        tp, dp = rank % 2, rank // 2
        groups = {"tp": [2 * dp, 2 * dp + 1], "dp": [tp, tp + 2]}
        with DumpWriter(folder / "left", distributed=DistributedRank(rank, 4, groups)) as writer:
            for step, tensors in enumerate(steps):
                out = np.split(tensors["out"], 2, 2)[tp].astype("f4")
                if (step, rank) == stale:
                    out[1, 0, 3] += 1
                writer.write("ids", tensors["ids"], placement="b s # tp:replicated dp:replicated")
                if (step, rank) != lacking:
                    writer.write("out", out, placement="b s h[tp] # dp:replicated")
    run(folder / "right", [IDS], "occurrence")


def joined(folder):
    made = planned(folder, RANKS)
    return {one.left.address: one for one in build_report(made, compare_plan(made)).records}


@pytest.mark.parametrize(("stale", "told"), [((3, 2), ("rank 2", "rank 0", 15)), ((0, 3), ("rank 3", "rank 1", 9))])
def test_a_copy_that_differs_in_one_step_is_found_at_its_rank(tmp_path, stale, told):
    ranks(tmp_path, stale)
    finding = joined(tmp_path)["out:output:0"].verdict.findings[0].message
    assert finding.code == "replica"
    place = finding.parameters["place"]
    assert (finding.parameters["rank"], finding.parameters["first"], place[0]) == told
    assert place[1] == (3 if stale[1] % 2 == 0 else 7)


def test_a_rank_that_lacks_a_step_is_named(tmp_path):
    ranks(tmp_path, lacking=(5, 3))
    told = joined(tmp_path)["out:output:0"].verdict
    assert (told.outcome, told.findings[0].message.code) == ("error", "incomplete")


# -- the view ----------------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data(), st.integers(1, 3), st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 3))
def test_any_runs_of_tokens_are_read_where_they_are(data, rows, lengths, width):
    steps = [np.random.default_rng([n, rows]).random((rows, length, width, 2)) for n, length in enumerate(lengths)]
    flat = np.concatenate([step.reshape(-1, width, 2) for step in steps])
    ends = np.cumsum([0, *(rows * length for length in lengths)])
    runs = []
    for _ in range(data.draw(st.integers(0, 5))):
        step = data.draw(st.integers(0, len(steps) - 1))
        first = data.draw(st.integers(int(ends[step]), int(ends[step + 1]) - 1))
        runs.append((first, data.draw(st.integers(1, int(ends[step + 1]) - first))))
    tokens = TokenRuns(tuple(step.shape[:2] for step in steps), tuple(runs))
    view = TokenView([ArrayView(step) for step in steps], tokens)
    wanted = np.concatenate([flat[:0], *(flat[first : first + length] for first, length in runs)])
    assert view.shape == wanted.shape
    start = data.draw(st.integers(0, wanted.size))
    stop = data.draw(st.integers(start, wanted.size))
    assert np.array_equal(view.read(start, stop), wanted.ravel()[start:stop])
    moved = view.permuted((0, 2, 1))
    assert np.array_equal(moved.read(0, moved.size).reshape(moved.shape), wanted.transpose(0, 2, 1))
    if wanted.size:
        index = np.unravel_index(data.draw(st.integers(0, wanted.size - 1)), wanted.shape)
        step, there = view.source_of(index)
        assert steps[step][there] == wanted[index]
