"""What indices were chosen from: by the rule that says so, or, for the entry to write, by the values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace

import numpy as np

from pytest_msdump.capabilities.generation.part import NAME, Part, SetAside, part_of
from pytest_msdump.capabilities.generation.ties import KEY, ROUTES, are_many, near_rows, table_of
from pytest_msdump.core.compare.align import OpenedPair, align
from pytest_msdump.core.compare.comparing import compare_pair
from pytest_msdump.core.compare.opening import open_view
from pytest_msdump.core.compare.user_code import NO_EXTRAS
from pytest_msdump.core.dtypes.decode import to_double
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.limits.policy import Policy, Rule
from pytest_msdump.core.limits.resolve import marks_of
from pytest_msdump.core.model.comparison import Finding
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.model.spellings import addresses, glob_matches
from pytest_msdump.core.model.tensor import Coordinates, Pair, Pairing, TensorRef, TensorView
from pytest_msdump.core.ports import Planned
from pytest_msdump.core.text import Message

# For an entry so many values are looked at, of so many pairs before the indices.
_MOST_VALUES, _MOST_PAIRS = 2**22, 40


def with_chosen_from(pairing: Pairing, policy: Policy) -> Pairing:
    """Give each pair of indices, of which a rule says what they were chosen from, the pair of these values.

    Where a rule says that they route tokens, near ties are looked for at once: of all pairs that come later the tokens
    behind these may be set aside.
    """
    pairs = list(pairing.pairs)
    # By coordinates, and how the names of what comes behind a router begin.
    aside: dict[tuple[Coordinates, str], SetAside] = {}
    chosen: list[tuple[Pair, TensorRef]] = []
    routes = changed = 0
    for number, pair in enumerate(pairs):
        at = pair.left.key.op.at
        values = next((_values_of(pair, rule, text, pairs) for rule, text in marks_of(policy, pair, KEY)), None)
        behind = (one for (where, start), one in aside.items() if where == at and _begins(pair, start))
        part = Part(values, next(behind, None))
        if part != Part():
            pairs[number] = replace(pair, parts={**pair.parts, NAME: part})
        if isinstance(values, Pair):
            chosen.append((values, pair.right))
        # What routes no tokens, such as the ids of the next ones, has nothing behind it.
        start = next((_start_of(pair, rule, value) for rule, value in marks_of(policy, pair, ROUTES)), None)
        if isinstance(values, Pair) and start is not None:
            found = _near_rows(pairs[number], part, policy)
            known = aside.get((at, start))
            routes += found.count if found else 0
            changed += len(found.rows) if found else 0
            if found and found.rows and (known is None or known.count == found.count):
                aside[at, start] = found if known is None else known.with_more(found)
    if are_many(changed, routes):
        pairs = [_with_many(pair) for pair in pairs]
    for values, ref in chosen:
        number = next(
            number for number, one in enumerate(pairs) if one.left is values.left and one.right is values.right
        )
        part = part_of(pairs[number])._replace(chosen=ref)
        pairs[number] = replace(pairs[number], parts={**pairs[number].parts, NAME: part})
    return replace(pairing, pairs=tuple(pairs))


def _with_many(pair: Pair) -> Pair:
    """Return a pair of which nothing is set aside, since that would be too much."""
    part = part_of(pair)
    values = _with_many(part.values) if isinstance(part.values, Pair) else part.values
    aside = part.aside and part.aside._replace(is_many=True)
    return replace(pair, parts={**pair.parts, NAME: part._replace(values=values, aside=aside)})


def _begins(pair: Pair, start: str) -> bool:
    return any(name.startswith(start) for name in _names(pair))


def _start_of(pair: Pair, rule: Rule, value: str | bool) -> str | None:
    """Return how the names of what comes behind a router begin; ``None`` where that cannot be filled in."""
    return next(_filled(value, rule.match, pair), None) if isinstance(value, str) else ""


def _near_rows(pair: Pair, part: Part, policy: Policy) -> SetAside | None:
    """Return the tokens that near ties send elsewhere; what cannot be read is said where the pair is compared."""
    with suppress(MsdumpError, OSError), closing(open_view(pair.left)) as left, closing(open_view(pair.right)) as right:
        opened = OpenedPair(pair, left, right, align(pair, left, right), NO_EXTRAS)
        return near_rows(opened, part, lambda chosen: compare_pair(chosen, policy))[1]
    return None


def _values_of(pair: Pair, rule: Rule, text: str, pairs: Iterable[Pair]) -> Pair | Message:
    """Return the pair of values that a rule names; `*` in their name is what it stands for in the rule's `match`."""
    wanted = dict.fromkeys(_filled(text, rule.match, pair))
    at = pair.left.key.op.at
    found = [
        other
        for other in pairs
        if other.left.key.op.at == at
        and other is not pair
        and any(glob_matches(name, _names(other)) for name in wanted)
    ]
    if len(found) > 1:
        found = [one for one in found if one.left.key.io == "output" and one.left.key.slot == 0] or found
    if len(found) == 1:
        return found[0]
    return Message("ties_several" if found else "ties_nothing", {"n": len(found), "values": text})


def _filled(text: str, match: str, pair: Pair) -> Iterator[str]:
    """Yield the name of the values, with what each `*` of the rule's `match` stands for in this pair's names."""
    if "*" not in text:
        yield text
        return
    # Of `layers.*.gate` in `layers.3.gate`, 3.
    pattern = re.compile("(.*?)".join(re.escape(piece) for piece in match.split("*")))
    for name in _names(pair):
        if fitting := pattern.fullmatch(name):
            stars = iter(fitting.groups())
            yield re.sub(r"\*", lambda _: next(stars, "*"), text)  # noqa: B023


def _names(pair: Pair) -> tuple[str, ...]:
    return (*addresses(pair.left.key), *addresses(pair.right.key))


def _kind(ref: TensorRef) -> str | None:
    """Return the kind of a tensor's values, if need be by the header of its file; ``None`` where that is unknown."""
    dtype = ref.spec.dtype
    if dtype is None and not ref.is_unseen:
        with suppress(MsdumpError, OSError), closing(open_view(ref)) as view:
            dtype = view.dtype
    return DTYPES[dtype].kind if dtype in DTYPES else None


def with_entries(report: Report, plan: Planned) -> Report:
    """Return the report with the entry to write for failing indices that are the largest of a pair before them."""
    failing = [
        one for one in report.records if "integers_differ" in {each.message.code for each in one.verdict.findings}
    ]
    if not failing:
        return report
    pairs = {(pair.left.key.address, pair.right.key.address): pair for pair in plan.pairing.pairs}
    notes: dict[int, Finding] = {}
    for record in failing:
        pair = pairs.get((record.left.address, record.right.address))
        values = pair and _chosen_from(pair, plan.pairing.pairs)
        if pair and values:
            entry = {"indices": pair.left.key.address, "values": values.left.key.address}
            notes[id(record)] = Finding("note", Message("ties_entry", entry))
    return (
        replace(report, records=tuple(_noted(one, notes.get(id(one))) for one in report.records)) if notes else report
    )


def rules_of(plan: Planned) -> list[dict[str, str]]:
    """Return the rules to write for indices that are the largest of a pair before them, on both sides."""
    pairs = plan.pairing.pairs
    indices = [pair for pair in pairs if _kind(pair.left) == _kind(pair.right) == "integer"][:_MOST_PAIRS]
    # Of several iterations one rule.
    found = {
        pair.left.key.address: values.left.key.address for pair in indices if (values := _chosen_from(pair, pairs))
    }
    return [{"match": chosen, "ties": values} for chosen, values in found.items()]


def _noted(record: Record, note: Finding | None) -> Record:
    if note is None:
        return record
    return replace(record, verdict=replace(record.verdict, findings=(*record.verdict.findings, note)))


def _chosen_from(pair: Pair, pairs: tuple[Pair, ...]) -> Pair | None:
    """Return the last pair of floats before this one of which each side's indices are the largest."""
    at, order = pair.left.key.op.at, pair.order
    with suppress(MsdumpError, OSError), ExitStack() as stack:
        ours, theirs = (stack.enter_context(closing(open_view(ref))) for ref in (pair.left, pair.right))
        before = [one for one in pairs if one.left.key.op.at == at and one.order <= order and one is not pair]
        for other in reversed(before[-_MOST_PAIRS:]):
            if _are_largest(ours, other.left) and _are_largest(theirs, other.right):
                return other
    return None


def _are_largest(indices: TensorView, ref: TensorRef) -> bool:
    """Whether indices are the largest of each row of some values, as far as the first rows show."""
    with closing(open_view(ref)) as values:
        table = table_of(indices.shape, values.shape)
        if table is None or table.inner != 1 or DTYPES[values.dtype].kind != "float":
            return False
        rows = min(table.rows, _MOST_VALUES // table.width)
        chosen = np.asarray(indices.read(0, rows * table.k)).astype(np.int64).reshape(rows, table.k)
        if not rows or chosen.min() < 0 or chosen.max() >= table.width:
            return False
        for row, ids in enumerate(chosen):
            start = table.offset(row, 0)
            numbers = to_double(values.read(start, start + table.width))
            least = numbers[ids].min()
            if not np.isfinite(least) or np.delete(numbers, ids).max(initial=-np.inf) > least:
                return False
    return True
