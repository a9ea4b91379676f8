"""``msdump init LEFT RIGHT``: a first suite file for two dumps, and what to type next."""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.suggest.partners import suggest_partners
from pytest_msdump.capabilities.suggest.suggested_suite import SuggestedSuite, found_text, new_file, write_lines
from pytest_msdump.cli.compare import add_suite_arguments, suite_of
from pytest_msdump.cli.output import add_quiet, phrases, print_lines, terminal_width
from pytest_msdump.core.compare.planning import Plan, plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import shell_line
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.report.coverage import map_entry_lines, percent
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.report.summary import header_lines
from pytest_msdump.core.report.tables import hanging
from pytest_msdump.core.storage.files import read_user_file
from pytest_msdump.core.suite import MOST_BYTES, parse_toml
from pytest_msdump.core.text import Message, beginnings

DESCRIPTION = (
    "Write a first suite file for the dump of a run under test (LEFT) and that of its reference (RIGHT): pairs "
    "their tensors, looks for partners of those that have none, and chooses limits. Exit code 0: the file is "
    "written; 1: it is, and nothing pairs; 4: usage error."
)
EXAMPLES = ("msdump init run reference", "msdump init run reference -o port.msdump.toml")

_OPTIONS = ("left", "right", "fusion", "quant_fusion", "close_fusion", "allow_incomplete")
_FLOAT32 = DTYPES["float32"].coarseness or 0
# Of these it is known that float32 is computed as float32.
_FULL_PRECISION = "cpu"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the two sides, the rule files and the file to write."""
    groups = add_suite_arguments(parser, _OPTIONS, taken="-q")
    groups["output"].add_argument(
        "-o", "--out", metavar="FILE", default="msdump.toml", help="the new suite file (default: %(default)s)"
    )
    groups["output"].add_argument(
        "--update",
        action="store_true",
        help="FILE is there: make the entries anew that init wrote; keep every key, rule, comment and edited entry",
    )
    add_quiet(groups["output"], "-q")
    parser.set_defaults(msdump_config=None, msdump_io=None)


def run(parsed: argparse.Namespace) -> int:
    """Plan, suggest, write and print; return the exit code."""
    kept = _kept_text(Path(parsed.out)) if parsed.update else None
    target = new_file(parsed.out) if kept is None else Path(parsed.out)
    table = {} if kept is None else _table_of(kept, target)
    progress = Progress("msdump init", quiet=parsed.quiet)
    with progress.step("indexing and pairing"):
        planned = plan(suite_of(parsed, table=None if kept is None else (target, table)))
    found = suggest_partners(planned, watch=progress)
    is_said = "profile" in table
    profile, reason = (
        (table["profile"], Message("profile_said", {"file": str(target)})) if is_said else profile_for(planned)
    )
    suite = SuggestedSuite(planned, found, parsed, target.absolute().parent, profile=profile)
    ran, say = suite.run(progress), phrases(parsed)
    why = say.of(reason)
    if kept is None:
        more = {"profile": f'"{profile}"  # {why}'}
        write_lines(target, suite.lines(f"# {say('init_heading')}", more, entry_lines=made_entry_lines))
    else:
        pair_by = None if "pair_by" in table else suite.pair_by
        write_lines(target, with_entries(kept, [*suite.entries.lines(made_entry_lines)], pair_by=pair_by).splitlines())
    width = terminal_width(100, least=40)
    is_written = say("init_written", file=str(target))
    has_rest = bool(planned.pairing.unmatched_right)
    code = "all" if suite.coverage == suite.reached else "less"
    code = "lost" if suite.lost_outputs else code if kept is None else "kept"
    shares: dict[str, Any] = {"kept": table.get("min_coverage", "–")} | {
        "share": percent(suite.reached),
        "wanted": percent(suite.coverage),
        "names": tuple(suite.lost_outputs),
    }
    said = (
        say("after_label", label=is_written, text=found_text(found, say)) if has_rest else is_written,
        say(f"init_reached_{code}", **shares),
        *ran,
        say("init_limits", profile=profile, why=why),
        say("init_calibrate"),
    )
    print_lines(header_lines(*planned.sides, pairs=len(planned.pairing.pairs), profile=profile, say=say))
    print_lines(line for text in said for line in hanging(text, width))
    print_lines([say("next_command"), f"  {shell_line(['pytest', str(target)])}"])
    return int(suite.reached == 0)


def _kept_text(target: Path) -> str:
    """Return what a person wrote in a suite file."""
    raw = read_user_file(target, MOST_BYTES, want="--update takes a suite that init wrote")
    try:
        return without_made_entries(raw.decode())
    except UnicodeDecodeError:
        raise ConfigError(f"{target} is not UTF-8; save it as UTF-8") from None


def _table_of(text: str, target: Path) -> dict[str, Any]:
    table = parse_toml(text.encode(), str(target)).get("msdump")
    if not isinstance(table, Mapping):
        raise ConfigError(f"{target} has no table [msdump]; --update takes a suite that init wrote")
    return dict(table)


def profile_for(planned: Plan) -> tuple[str, Message]:
    """Choose named limits by where both sides ran and in which types; return the profile and why."""
    for name, dump in (("left", planned.left), ("right", planned.right)):
        labels = dict(dump.labels)
        if labels.get("dtype_policy"):
            return "default", Message("profile_mixed", {"side": name, "policy": labels["dtype_policy"]})
    types = {ref.spec.dtype for dump in (planned.left, planned.right) for ref in dump.refs}
    coarse = [name for name, fact in DTYPES.items() if name in types and (fact.coarseness or 0) > _FLOAT32]
    if coarse:
        return "default", Message("profile_coarse", {"dtype": coarse[0]})
    device = _device(planned.left)
    if device is None:
        return "default", Message("profile_no_device")
    for name in (device, _device(planned.right) or device):
        if not name.lower().startswith(_FULL_PRECISION):
            return "default", Message("profile_device", {"device": name})
    return "strict", Message("profile_cpu")


def _device(dump: Dump) -> str | None:
    """Return what a dump says of its device, e.g. ``"cuda"``, ``"CPU"`` or ``"CPUExecutionProvider"``."""
    return dict(dump.labels).get("device_target")


_HEADER = "[[msdump.map]]"
# Behind the digest of the entry as init wrote it: one that was edited has another.
_MADE = re.compile(rf"{re.escape(_HEADER)}  # by msdump init, ([0-9a-f]{{8}})")
_REMARKS = beginnings(
    "ambiguous_against", "ambiguous_one", "ambiguous_among", "suggested_none", "suggested_copies", "suggested_unread"
)


def made_entry_lines(entry: dict[str, Any]) -> list[str]:
    """Return the lines of an entry with the mark by which it is known as init's own.

    >>> made_entry_lines({"left": "conv1", "right": "c"})
    ['[[msdump.map]]  # by msdump init, a7a174ed', 'left = "conv1"', 'right = "c"']
    """
    header, *keys = map_entry_lines(entry)
    return [f"{header}  # by msdump init, {_digest(keys)}", *keys]


def without_made_entries(text: str) -> str:
    """Return a suite file without the entries and remarks that init wrote and nobody has edited since."""
    kept = [block for block in re.split(r"\n[ \t]*\n", text.replace("\r\n", "\n")) if not _is_made(block.splitlines())]
    return "\n\n".join(block.strip("\n") for block in kept) + "\n"


def with_entries(text: str, lines: Sequence[str], *, pair_by: str | None) -> str:
    """Return a suite file with new lines at its end, and with `pair_by` in its first table."""
    if pair_by is not None:
        text, count = re.subn(r"(?m)^\[msdump\].*$", lambda match: f"{match[0]}\npair_by = {pair_by}", text, count=1)
        if not count:
            raise ConfigError(f"the suite file has no line [msdump]; write it, with pair_by = {pair_by} below")
    return text + "".join(f"{line}\n" for line in lines)


def _is_made(lines: Sequence[str]) -> bool:
    keys = list(_after_remarks(lines))
    if not keys:
        return bool(lines) and lines[0].removeprefix("# ").startswith(_REMARKS)
    made = _MADE.fullmatch(keys[0].rstrip())
    return made is not None and made[1] == _digest(keys[1:])


def _after_remarks(lines: Sequence[str]) -> Iterator[str]:
    is_behind = False
    for line in lines:
        is_behind = is_behind or not line.startswith("#")
        if is_behind:
            yield line


def _digest(lines: Sequence[str]) -> str:
    return hashlib.blake2b("\n".join(lines).encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
