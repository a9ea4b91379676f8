"""``msdump match --suggest``: a suite that runs as it is, or its entries as a value of Python."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.capabilities.suggest.partners import Suggested, suggest_partners
from pytest_msdump.capabilities.suggest.suggested_entries import EntryLines, NewEntry, SuggestedEntries, in_templates
from pytest_msdump.cli.output import phrases, print_lines, terminal_width
from pytest_msdump.core.compare.assemble import coverage_of
from pytest_msdump.core.compare.opening import open_view
from pytest_msdump.core.compare.planning import Plan, plan
from pytest_msdump.core.errors import ConfigError, TensorFileError
from pytest_msdump.core.escape import toml_value
from pytest_msdump.core.ports import offered, rows
from pytest_msdump.core.report.coverage import map_entry_lines
from pytest_msdump.core.report.tables import hanging
from pytest_msdump.core.scheduling import records_of
from pytest_msdump.core.settings.options import OPTIONS
from pytest_msdump.core.storage.files import write_atomic
from pytest_msdump.core.storage.locations import RemotePath
from pytest_msdump.core.suite import SideChoice, load_suite

if TYPE_CHECKING:
    from pytest_msdump.core.compare.user_code import Watch
    from pytest_msdump.core.model.tensor import Pair, TensorRef
    from pytest_msdump.core.report.progress import Progress
    from pytest_msdump.core.text import Phrases

# Options that pairing depends on, as read from wherever they were given, and as typed.
_READ_NAMES = ("io", "select", "deselect", "allow_incomplete")
_READ = {option.name: option.value for option in OPTIONS if option.name in _READ_NAMES}
_TYPED = ("iteration", "rank", "graph", "align")
_RULE_FILES = ("fusion", "quant_fusion", "close_fusion")
_MOST_NAMED = 5


def suggest(planned: Plan, parsed: argparse.Namespace, progress: Progress) -> int:
    """Print or write a suite; return 1 when tensors lack a partner and none was found."""
    target = None if parsed.out is None else new_file(parsed.out)
    folder = Path.cwd() if target is None else target.absolute().parent
    reference = None if parsed.model is None else offered("reference").load_reference(parsed.model)
    if reference is not None and not reference.is_torch:
        raise ConfigError(f"--model {parsed.model}: only models of PyTorch suggest partners; name FILE:FUNCTION")
    if reference is None:
        found = suggest_partners(planned, watch=progress)
    else:
        found = offered("suggestions").suggest_with(reference, planned, watch=progress)
    suite = SuggestedSuite(planned, found, parsed, folder)
    said, say = suite.run(progress), phrases(parsed)
    if parsed.form == "python":
        lines = list(_python_lines(suite.entries.known + suite.entries.clear, found, say))
    else:
        lines = suite.lines(f"# {say('suggested_by', text=found_text(found, say))}", {})
    if target is None:
        sys.stdout.writelines(f"{line}\n" for line in lines)
    else:
        write_lines(target, lines)
    width = terminal_width(100, least=40)
    print_lines([f"msdump match: {found_text(found, say)}"], to_error=True)
    print_lines((line for text in said for line in hanging(text, width)), to_error=True)
    return int(bool(planned.pairing.unmatched_right) and not suite.entries.clear)


def new_file(text: str) -> Path:
    """Return the path of a file that is not there yet."""
    target = Path(text)
    if os.path.lexists(target):
        raise ConfigError(f"{target} is there already; name a new file, or remove it")
    return target


def write_lines(target: Path, lines: Iterable[str]) -> None:
    """Write a new text file as a whole."""
    try:
        write_atomic(target, "".join(f"{line}\n" for line in lines).encode())
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror or error}") from None


class SuggestedSuite:
    """The suite file of a plan with the `entries` that were found; `reached` is the share that they compare."""

    def __init__(
        self, planned: Plan, found: Suggested, parsed: argparse.Namespace, folder: Path, *, profile: str | None = None
    ) -> None:
        self._say = phrases(parsed)
        self.entries = SuggestedEntries(planned, found, self._say)
        self._found = found
        self._table = _table(planned, parsed, folder, has_entries=bool(self.entries.known or self.entries.clear))

        def planned_with(new: Sequence[NewEntry]) -> Plan:
            entries = [*self.entries.known, *(one.keys for one in new)]
            table = self._table | {"map": entries} | ({} if profile is None else {"profile": profile})
            suite = load_suite(file=None, table=table, options={}, directory=folder, name="the suggested suite")
            return plan(suite)

        self._planned = planned_with(self.entries.new)
        short = in_templates(self.entries.new, self.entries.count)
        if len(short) < len(self.entries.new) and _pairs(planned_with(short)) == _pairs(self._planned):
            self.entries.new = short
        pairing = self._planned.pairing
        doubtful = {_place(found.right[number]) for number in found.doubtful}
        further = sum(_place(one.ref) in doubtful for one in pairing.unmatched_right)
        # Cut to what a person would type.
        covered = coverage_of(pairing, self._planned.left, self._planned.right)
        self.lost_outputs = covered.outputs
        self.reached, self.coverage = (
            floor(min(1.0, share) * 1000) / 1000
            for share in (covered.value, covered.value + further / max(1, covered.right_total))
        )

    def run(self, watch: Watch) -> list[str]:
        """Compare the pairs once; return sentences on what fails, with the entries to look at.

        ConfigError where no pair can be read.
        """
        pairs = self._planned.pairing.pairs
        records = records_of(self._planned, watch)[0]
        failing = [pair for number, pair in enumerate(pairs) if records[number].fails]
        unread = [why for pair in failing if (why := _why_unread(pair))]
        if unread and len(unread) == len(pairs):
            raise ConfigError(f"{unread[0]} (no pair of {len(pairs)} can be read, so there is no suite to write)")
        said = [self._say("suite_unread", n=len(unread), pairs=len(pairs), why=unread[0])] if unread else []
        if failing:
            names = [f"{pair.left.key.address} <-> {pair.right.key.address}" for pair in failing]
            listed = self._say.named(dict.fromkeys(names), _MOST_NAMED)
            said.append(self._say("suite_fails", n=len(failing), pairs=len(pairs), names=listed))
        if self._found.doubtful:
            names = [self._found.right[number].key.address for number in sorted(self._found.doubtful)]
            said.append(self._say("suite_doubtful", names=self._say.named(dict.fromkeys(names), _MOST_NAMED)))
        return said

    @property
    def pair_by(self) -> str | None:
        """The ways of pairing that the file has to name."""
        return _toml(self._table["pair_by"]) if "pair_by" in self._table else None

    def lines(self, heading: str, more: dict[str, str], *, entry_lines: EntryLines = map_entry_lines) -> list[str]:
        """Return the lines of the file; `more` are lines of keys, each with what stands behind it."""
        table = {key: _toml(value) for key, value in self._table.items()} | more
        # A share must not look like a decision on what the model itself gives back.
        if not self.lost_outputs:
            table["min_coverage"] = _toml(self.coverage)
        lines = [heading, "[msdump]", *(f"{key} = {value}" for key, value in table.items())]
        lines += [line for entry in self.entries.known for line in ("", *map_entry_lines(entry))]
        return [*lines, *self.entries.lines(entry_lines), *self._rule_lines()]

    def _rule_lines(self) -> Iterator[str]:
        """Yield the rules for near ties of what was chosen, as by argmax."""
        rules = offered("choices").rules_of(self._planned) if "choices" in rows("OFFERS") else []
        for number, rule in enumerate(rules):
            yield from ("", *([f"# {self._say('suite_ties')}"] if number == 0 else []), "[[msdump.rule]]")
            yield from (f"{key} = {_toml(value)}" for key, value in rule.items())


def _why_unread(pair: Pair) -> str:
    """Return why a tensor of a pair cannot be opened; empty where both can."""
    try:
        for ref in (pair.left, pair.right):
            if not ref.is_unseen:
                open_view(ref).close()
    except TensorFileError as error:
        return str(error)
    return ""


def _pairs(planned: Plan) -> list[tuple[object, ...]]:
    return [(pair.left.key, pair.right.key, pair.how, pair.transform) for pair in planned.pairing.pairs]


def _place(ref: TensorRef) -> tuple[str, int]:
    return ref.key.typed_address, ref.key.op.at.occurrence or 0


def found_text(found: Suggested, say: Phrases) -> str:
    """Return one sentence: how many entries there are."""
    entries = sum(one.is_clear for one in found.suggestions)
    ambiguous = len(found.suggestions) - entries
    rest = len(found.alone) + sum(one.side == "right" for one in found.unread)
    rest -= len(found.suggestions) + len(found.copies)
    return say("suggested_entries", entries=entries, ambiguous=ambiguous, rest=rest)


def _table(planned: Plan, parsed: argparse.Namespace, folder: Path, *, has_entries: bool) -> dict[str, Any]:
    """Return what the suite says before its entries; paths start from its folder."""
    suite = planned.suite
    table: dict[str, Any] = {"left": _side(suite.left, folder), "right": _side(suite.right, folder)}
    for name in _RULE_FILES:
        if (path := getattr(suite, name)) is not None:
            table[name] = _relative(path, folder)
    if suite.graph_files:
        table["graph_files"] = [_relative(path, folder) for path in suite.graph_files]
    for name in ("left_format", "right_format"):
        if (value := getattr(suite, name)) is not None:
            table[name] = value
    table |= {name: value for name, usual in _READ.items() if (value := suite.options[name]) != usual}
    for name in _TYPED:
        if (value := getattr(parsed, f"msdump_{name}", None)) is not None:
            table[name] = dict(one.split("=", 1) for one in value) if name == "align" else value
    ways = {pair.how for pair in planned.pairing.pairs}
    if has_entries and "structure" in ways:
        # With entries of a map, these pair only where they are asked for.
        table["pair_by"] = ["map", "fusion", "name", "mangled", "structure"]
    return table


def _side(side: SideChoice, folder: Path) -> Any:
    path = _relative(side.path, folder)
    chosen = {name: value for name in ("rank", "net", "graph", "iteration") if (value := getattr(side, name))}
    chosen |= {name: dict(value) for name in ("dtype", "shape") if (value := getattr(side, name))}
    return {"path": path, **chosen} if chosen else path


def _relative(path: Path, folder: Path) -> str:
    return str(path) if isinstance(path, RemotePath) else Path(os.path.relpath(path, folder)).as_posix()


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    return toml_value(value)


def _python_lines(entries: Sequence[Mapping[str, Any]], found: Suggested, say: Phrases) -> Iterator[str]:
    """Yield a map as Python writes it: a dict where no entry says more than two names."""
    yield f"# {say('suggested_by', text=found_text(found, say))}"
    if all(len(entry) == len(("left", "right")) for entry in entries):
        yield "pairs = {"
        yield from (f"    {entry['left']!a}: {entry['right']!a}," for entry in entries)
        yield "}"
    else:
        yield "pairs = ["
        yield from (f"    {dict(entry)!a}," for entry in entries)
        yield "]"
