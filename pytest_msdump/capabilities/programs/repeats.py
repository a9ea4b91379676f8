"""Whether a program makes the same numbers each time: its runs are kept as digests of their tensors, and compared."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_msdump.capabilities.causes.localise import localise
from pytest_msdump.capabilities.causes.roles import reason_text
from pytest_msdump.capabilities.statistics.tensor_statistics import Digests, quick_digest
from pytest_msdump.core.compare.opening import open_logical
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.core.facts.metrics import STATISTICS
from pytest_msdump.core.facts.operators import RANDOM_TYPES
from pytest_msdump.core.matching.pairer import pair_dumps
from pytest_msdump.core.model.comparison import Verdict
from pytest_msdump.core.model.describe import counted, listed, where_text
from pytest_msdump.core.model.dump import PARAMETER, Dump
from pytest_msdump.core.model.record import Record, ReportedTensor, RoleReason, record_of
from pytest_msdump.core.model.tensor import COORDINATES, UNSEEN, Statistics, TensorKey, TensorRef, TensorSpec
from pytest_msdump.core.suite import load_suite
from pytest_msdump.core.text import ENGLISH, Message, Phrases

_LEAST_RUNS = 2
_BLOCK_ELEMENTS = 2**17
_SHOWN = 8
# The reason of a tensor that a later run into the same folder has replaced.
_OLDER = "older_run"
_RANDOM = re.compile(RANDOM_TYPES, re.IGNORECASE)
# Reasons of roles that are said otherwise where runs of one program are compared.
_SAID = ("passing", "first")


@dataclass(frozen=True, slots=True)
class Difference:
    """Where it starts: a tensor of the first run, the numbers of the runs in which it differs, and why it starts here.

    `is_random` says that its operator is random by design, and that no seeds are known to be equal.
    """

    tensor: ReportedTensor
    runs: tuple[int, ...]
    why: Message | RoleReason
    is_random: bool


@dataclass(frozen=True, slots=True)
class Repeats:
    """How so many runs compare with the first, which has so many tensors; of these `differing` differ in some run."""

    runs: int
    tensors: int
    differing: int
    differences: tuple[Difference, ...]
    given: tuple[Message, ...]
    alone: tuple[Message, ...]

    @property
    def is_equal(self) -> bool:
        """Whether all runs made the same numbers by the same operators."""
        return not (self.differing or self.alone)


def repeat(run: Callable[[Path], Dump], runs: int, folder: Path) -> Repeats:
    """Make several runs, each into a folder of its own that is removed once it is read, and compare them."""
    if runs < _LEAST_RUNS:
        raise ConfigError(f"{counted(runs, 'run')}: there is nothing to compare; make {_LEAST_RUNS} at least")

    def dump_of(number: int) -> Dump:
        own = folder / f"run_{number}"
        try:
            return _digested(run(own))
        except MsdumpError as error:
            raise ConfigError(f"run {number} of {runs}: {error}") from error
        finally:
            shutil.rmtree(own, ignore_errors=True)

    comparison = _RunComparison(dump_of(1))
    for number in range(2, runs + 1):
        comparison.add(number, dump_of(number))
    return comparison.result()


def _digested(dump: Dump) -> Dump:
    """Return a dump with the digest of each tensor in its place, which needs no file any more."""
    if not dump.refs:
        raise ConfigError(f"{dump.root}: holds no tensor")
    return replace(dump, refs=tuple(map(_digest, dump.refs)))


def _digest(ref: TensorRef) -> TensorRef:
    if ref.is_unseen:
        known = ref.statistics.values if ref.statistics else {}
        values = {name: known[name] for name, fact in STATISTICS.items() if fact.proves and known.get(name)}
        if not values:
            raise ConfigError(
                f"{ref.source.path}: {ref.key.address} was not saved and has no digest that proves equal bytes; "
                "dump whole tensors, or statistics with md5"
            )
        return replace(ref, statistics=Statistics(values, digits=None), sketch=None)
    with closing(open_logical(ref)) as view:
        digests = Digests([quick_digest()], view.dtype)
        for block in view.blocks(_BLOCK_ELEMENTS):
            digests.add(block)
        spec = TensorSpec(view.dtype, view.shape)
    return replace(ref, spec=spec, reader=UNSEEN, statistics=Statistics(digests.values(), digits=None))


class _RunComparison:
    """The runs of one program, compared with the first of them."""

    def __init__(self, first: Dump) -> None:
        self._first = first
        self._seeds = [_seeds(first)]
        self._runs: defaultdict[TensorKey, list[int]] = defaultdict(list)
        self._starts: dict[TensorKey, Record] = {}
        self._given: defaultdict[str, list[int]] = defaultdict(list)
        self._alone: list[Message] = []

    def add(self, number: int, dump: Dump) -> None:
        """Compare a further run."""
        self._seeds.append(_seeds(dump))
        for name in _given_otherwise(self._first, dump):
            self._given[name].append(number)
        sides = {"left": str(self._first.root), "right": str(dump.root)}
        suite = load_suite(file=None, table={**sides, "io": "all"}, options={}, directory=self._first.root)
        pairing = pair_dumps(self._first, dump, selection=suite.selection, ways=("name", "mangled"))
        if not pairing.pairs:
            address = self._first.refs[0].key.address
            raise ConfigError(f"run 1 and run {number} have no operator in common, e.g. {address}")
        records = {
            place: record_of(
                pair,
                Verdict(
                    "pass"
                    if (pair.left.spec, pair.left.statistics) == (pair.right.spec, pair.right.statistics)
                    else "fail"
                ),
            )
            for place, pair in enumerate(pairing.pairs)
        }
        records |= localise(Plan(suite, self._first, dump, pairing), records).records
        failing = [record for record in records.values() if record.fails]
        # Where nothing is known to start it, the first to differ is the nearest that can be named.
        for record in [record for record in failing if record.role == "cause"] or failing[:1]:
            self._starts.setdefault(record.left.key, record)
        for record in failing:
            self._runs[record.left.key].append(number)
        where = {side: Message(f"repeat_alone_{side}", {"run": number}) for side in ("left", "right")}
        unmatched = (*pairing.unmatched_left, *pairing.unmatched_right)
        self._alone += [
            Message("in_brackets", {"text": one.ref.key.address, "aside": where[one.side]})
            for one in unmatched
            if one.why.code != _OLDER
        ]

    def result(self) -> Repeats:
        """Return what was found."""
        places = [ref.key.op.at for ref in self._first.refs]
        constant = {name: None for name in COORDINATES if len({getattr(at, name) for at in places}) == 1}
        begun: dict[int, Difference] = {}
        for record in sorted(self._starts.values(), key=lambda record: (record.order, record.left.key.slot)):
            begun.setdefault(record.order, self._difference(record, constant))
        return Repeats(
            len(self._seeds),
            len(self._first.refs),
            len(self._runs),
            tuple(sorted(begun.values(), key=lambda one: one.is_random)),
            tuple(
                Message("in_brackets", {"text": name, "aside": _runs(numbers)}) for name, numbers in self._given.items()
            ),
            tuple(self._alone),
        )

    def _difference(self, record: Record, constant: Mapping[str, None]) -> Difference:
        """Return what is said of a tensor, whose place is that among tensors with other coordinates."""
        problem, reason, runs = _seed_problem(self._seeds), record.role_why, tuple(self._runs[record.left.key])
        tensor = record.left._replace(at=record.left.at._replace(**constant))
        is_random = bool(_RANDOM.fullmatch((tensor.op_type or "").rpartition(".")[2]))
        if is_random:
            why: Message | RoleReason = (
                Message("repeat_unseeded", {"problem": problem}) if problem else Message("repeat_seeded")
            )
        elif tensor.op_type == PARAMETER:
            why = Message("repeat_weight")
        else:
            why = (reason or RoleReason("first"))._replace(certainty="")
        return Difference(tensor, runs, why, is_random and bool(problem))


def _seeds(dump: Dump) -> Mapping[str, int]:
    return dump.manifest.seeds if dump.manifest is not None else {}


def _seed_problem(seeds: Sequence[Mapping[str, int]]) -> Message | None:
    """Return why random operators may differ; ``None`` where all runs recorded the same seeds."""
    if not all(seeds):
        return Message("repeat_no_seed")
    others = [number for number, one in enumerate(seeds, 1) if one != seeds[0]]
    return Message("repeat_seeds_differ", {"runs": _runs(others)}) if others else None


def _given_otherwise(first: Dump, dump: Dump) -> Iterator[str]:
    """Yield the inputs and weights that were not the same at the beginning, by the digests in the manifests."""
    left, right = first.manifest, dump.manifest
    if left is not None and right is not None:
        for what, ours, theirs in (("input", left.inputs, right.inputs), ("weight", left.weights, right.weights)):
            yield from (f"{what} {name}" for name in ours if ours[name] != theirs.get(name))


def _runs(numbers: Sequence[int]) -> Message:
    names = listed([str(one) for one in numbers], _SHOWN)
    return Message("repeat_run" if len(numbers) == 1 else "repeat_runs", {"numbers": names})


def _why_text(why: Message | RoleReason, operator: str, say: Phrases, *, has_others: bool) -> str:
    if isinstance(why, Message):
        return say.of(why)
    text = say(f"repeat_{why.why}") if why.why in _SAID else reason_text(why, operator, say)
    return say("repeat_but_given", why=text) if has_others else text


def repeat_lines(found: Repeats, say: Phrases = ENGLISH) -> Iterator[str]:
    """Yield what there is to say of the runs, a line each; the first operators in full."""
    about = {"runs": found.runs, "tensors": found.tensors, "n": found.differing}
    yield say("repeat_differ" if found.differing else "repeat_equal", **about)
    if found.given:
        yield say("repeat_given", names=say.named(map(say.of, found.given), _SHOWN))
    if found.alone:
        yield say("repeat_alone", names=say.named(map(say.of, found.alone), _SHOWN))
    for number, one in enumerate(found.differences[:_SHOWN]):
        tensor, lead = one.tensor, "apart" if one.is_random else "first" if number == 0 else "further"
        what = ", ".join(filter(None, (tensor.op_type, where_text(tensor.at))))
        line = say("repeat_made_at", place=tensor.source.place) if tensor.source else ""
        name = f"{tensor.address} ({what})" if what else tensor.address
        yield say(f"repeat_lead_{lead}", text=say("repeat_differs", name=name, runs=_runs(one.runs), line=line))
        yield f"       {_why_text(one.why, tensor.address, say, has_others=bool(found.given))}"
    if len(found.differences) > _SHOWN:
        yield say("and_more_operators", n=len(found.differences) - _SHOWN)
