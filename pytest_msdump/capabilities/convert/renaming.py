"""``msdump rename FOLDER --pattern …``: foreign names of tensor files are brought to the grammar, or back."""

from __future__ import annotations

import argparse
import json
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.cli.output import phrases, print_lines
from pytest_msdump.core.dumps.file_names import ReferenceName
from pytest_msdump.core.dumps.sidefiles import MAPPING
from pytest_msdump.core.errors import ConfigError, DumpNotFoundError, MsdumpError, UnknownNameError, nearest
from pytest_msdump.core.escape import shell_line
from pytest_msdump.core.model.dump import JOURNAL_FILE, MANIFEST_FILE
from pytest_msdump.core.storage.files import read_user_file, write_atomic

_FIELDS = {"op": r".+", "slot": r"[0-9]+", "time": r"[0-9]+", "any": r".*?"}
_FIELD = re.compile(r"\{(\w*)\}")
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
# Digits of a time since 1970 → what makes µs of it; 10 are seconds, 13 ms, 16 µs, 19 ns.
_SCALES = {10: 1_000_000, 13: 1_000, 16: 1}
_NANOSECOND_DIGITS = 19
_MOST_SLOT_DIGITS = 9


class Parts(NamedTuple):
    """The parts of a name: the operator in letters of the grammar, its slot, the time in µs since 1970."""

    op: str
    slot: int
    time: int | None
    written: tuple[str, str]


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a pattern for whole names."""
    is_template = "(?P<" not in pattern
    try:
        with warnings.catch_warnings():
            # What a later Python may read in another way is an expression still.
            warnings.simplefilter("ignore")
            expression = re.compile(_from_template(pattern) if is_template else pattern, re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"--pattern '{pattern}': is not a regular expression: {error}") from error
    for name in expression.groupindex:
        if name not in _FIELDS:
            raise UnknownNameError(f"--pattern '{pattern}': unknown group '{name}'; {nearest(name, _FIELDS)}")
    if "op" not in expression.groupindex:
        raise ConfigError(f"--pattern '{pattern}': does not say where the operator stands; write {{op}}, or (?P<op>…)")
    return expression


def _from_template(template: str) -> str:
    parts, done, used = [], 0, set()
    for match in _FIELD.finditer(template):
        name = match[1]
        if name not in _FIELDS:
            raise UnknownNameError(f"--pattern '{template}': unknown field '{match[0]}'; {nearest(name, _FIELDS)}")
        if name in used:
            raise ConfigError(f"--pattern '{template}': has {match[0]} twice; write {{any}} for what does not matter")
        parts.append(re.escape(template[done : match.start()]))
        parts.append(_FIELDS[name] if name == "any" else f"(?P<{name}>{_FIELDS[name]})")
        used |= {name} - {"any"}
        done = match.end()
    return "".join([*parts, re.escape(template[done:])])


def parts_of(name: str, expression: re.Pattern[str]) -> Parts | None:
    """Read a file name; ``None`` where the pattern does not match, an error where a slot or time is none."""
    match = expression.fullmatch(name)
    if match is None:
        return None
    said = match.groupdict()
    slot = said.get("slot") or "0"
    if not (slot.isascii() and slot.isdigit() and len(slot) <= _MOST_SLOT_DIGITS):
        raise ConfigError(f"{name}: '{slot}' is not a slot; give a number from 0")
    op = _FOREIGN.sub("_", said["op"] or "")
    if not op:
        raise ConfigError(f"{name}: the pattern leaves no letter for the operator; let (?P<op>…) take one at least")
    time = _microseconds(said["time"], name) if said.get("time") else None
    return Parts(op, int(slot), time, (said["op"], slot))


def _microseconds(text: str, name: str) -> int:
    if text.isascii() and text.isdigit() and text[0] != "0":
        if len(text) in _SCALES:
            return int(text) * _SCALES[len(text)]
        if len(text) == _NANOSECOND_DIGITS:
            return int(text) // 1_000
    raise ConfigError(
        f"{name}: '{text}' is not a time since 1970 of 10, 13, 16 or 19 digits; write {{any}} there, and files get the "
        "time at which they were written"
    )


_VERSION = 1
_LARGEST_BYTES = 2**28
# A name in the folder or in one of its numbered sub-folders: nothing that leads out of it.
_NAME = re.compile(r"(?:[0-9]+/)?[^/\\\0]+\.npy", re.DOTALL)


class Move(NamedTuple):
    """One file: its `old` and its `new` name, below the folder."""

    old: str
    new: str


def new_undo_file(folder: Path) -> Path:
    """Return a new path beside a folder; in the folder, readers would look for tensors."""
    whole = Path(os.path.abspath(folder))  # noqa: PTH100 - resolve() would follow a link away from where it is
    number = 1
    while os.path.lexists(path := whole.with_name(f"{whole.name}.undo{'' if number == 1 else f'_{number}'}.json")):
        number += 1
    return path


def write_undo(file: Path, folder: Path, moves: Sequence[Move]) -> None:
    """Write what will be renamed, whole or not at all; a file that exists is an error."""
    if os.path.lexists(file):
        raise ConfigError(f"{file}: is there already, and may be needed; name another undo file")
    document = {"schema_version": _VERSION, "folder": str(folder), "renamed": [list(move) for move in moves]}
    try:
        write_atomic(file, f"{json.dumps(document, indent=1)}\n".encode("ascii"))
    except OSError as error:
        raise MsdumpError(f"{file}: cannot be written: {error.strerror or error}; nothing was renamed") from error


def read_undo(file: Path) -> list[Move]:
    """Read what was renamed; refuse names outside of the folder."""
    try:
        document = json.loads(read_user_file(file, _LARGEST_BYTES, want="give what 'msdump rename' wrote"))
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{file}: is not JSON: {error}") from error
    return _moves(document, file)


def _moves(document: Any, file: Path) -> list[Move]:
    rows = document.get("renamed") if isinstance(document, dict) else None
    if not isinstance(rows, list) or document.get("schema_version") != _VERSION:
        raise ConfigError(f"{file}: is not an undo file of version {_VERSION}; give what 'msdump rename' wrote")
    moves = []
    for row in rows:
        if not (
            isinstance(row, list)
            and len(row) == 2
            and all(isinstance(name, str) and _NAME.fullmatch(name) for name in row)
        ):
            raise ConfigError(f"{file}: 'renamed' holds {str(row)[:80]}, which is not a pair of names of a folder")
        moves.append(Move(*row))
    for names in zip(*moves, strict=True):
        if len(set(names)) != len(names):
            raise ConfigError(f"{file}: 'renamed' names a file twice")
    return moves


_FITS = re.compile(r"([A-Za-z0-9_-]+)\.([0-9]{1,9})\.([0-9]{16})\.npy")
_LONGEST_NAME_BYTES = 255
_SHOWN = 3
# 2001-09-09, the first µs of 16 digits; files are not older, but their times can be wrong.
_EARLIEST = 10**15


@dataclass(frozen=True, slots=True)
class RenamePlan:
    """What a renaming would do to a folder: `fitting` names are right already, `others` fit no pattern."""

    folder: Path
    moves: tuple[Move, ...]
    fitting: int = 0
    others: tuple[str, ...] = ()


def plan_renaming(folder: Path, pattern: str) -> RenamePlan:
    """Return the new names of the files of a folder and of its numbered sub-folders; nothing is changed."""
    expression = compile_pattern(pattern)
    moves: list[Move] = []
    others: list[str] = []
    claims = _Claims()
    fitting = 0
    for place, entry in _files(folder):
        old = place + entry.name
        fit = _FITS.fullmatch(entry.name)
        parts = None if fit else parts_of(entry.name, expression)
        if fit:
            fitting += 1
            claims.add(old, place, Parts(fit[1], int(fit[2]), int(fit[3]), (fit[1], fit[2])))
        elif parts is None:
            others.append(old)
        else:
            claims.add(old, place, parts)
            time = parts.time if parts.time is not None else max(entry.stat().st_mtime_ns // 1_000, _EARLIEST)
            moves.append(Move(old, place + ReferenceName(parts.op, parts.slot, time).filename))
    _check(folder, moves, pattern, others)
    return RenamePlan(folder, tuple(moves), fitting, tuple(others))


class _Claims:
    """New names and the files that get them: two operators, or two tensors, never become one."""

    def __init__(self) -> None:
        self._operators: dict[str, tuple[str, str]] = {}
        self._tensors: dict[tuple[str, str, int], tuple[str, Parts]] = {}

    def add(self, old: str, place: str, parts: Parts) -> None:
        written, slot = parts.written
        spelling, first = self._operators.setdefault(parts.op, (written, old))
        if spelling != written:
            raise ConfigError(
                f"{first} and {old}: '{spelling}' and '{written}' would both be the operator {parts.op}; rename one of "
                "them by hand, or change the pattern"
            )
        first, other = self._tensors.setdefault((place, parts.op, parts.slot), (old, parts))
        # Of one tensor there may be several of different times.
        if first != old and (parts.time is None or other.time is None or other.written[1] != slot):
            raise ConfigError(
                f"{first} and {old} would both be {place}{parts.op}.{parts.slot}; change the pattern, so that "
                "the names differ"
            )


def _files(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield ``.npy`` files by name, each with its place: empty, or the name of the sub-folder and ``/``."""
    for name in (MANIFEST_FILE, JOURNAL_FILE, MAPPING):
        if os.path.lexists(folder / name):
            raise ConfigError(
                f"{folder}: its {name} has the present file names; a dump with such a file is not renamed"
            )
    for entry in _listed(folder):
        if entry.is_dir(follow_symlinks=False) and entry.name.isascii() and entry.name.isdigit():
            for inner in _listed(folder / entry.name):
                if _is_tensor(inner):
                    yield f"{entry.name}/", inner
        elif _is_tensor(entry):
            yield "", entry


def _is_tensor(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(".npy") and entry.is_file()


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError as error:
        raise DumpNotFoundError(f"{folder}: no such directory; give the folder of the files to rename") from error
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be listed: {error.strerror or error}") from error


def _check(folder: Path, moves: Sequence[Move], pattern: str, others: Sequence[str]) -> None:
    if not moves:
        shown = ", ".join(others[:_SHOWN]) or "none that needs a new name"
        raise ConfigError(f"{folder}: --pattern '{pattern}' fits no .npy file there; there are: {shown}")
    by_new: dict[str, str] = {}
    for move in moves:
        # File systems that ignore case would write one over the other.
        first = by_new.setdefault(move.new.casefold(), move.old)
        if first != move.old:
            raise ConfigError(f"{first} and {move.old} would both be {move.new}; change the pattern")
        if len(os.fsencode(move.new.rpartition("/")[2])) > _LONGEST_NAME_BYTES:
            raise ConfigError(f"{move.old}: its new name would be longer than {_LONGEST_NAME_BYTES} bytes")
        if os.path.lexists(folder / move.new):
            raise ConfigError(f"{move.old} would be {move.new}, which is there already; nothing was renamed")


def apply(plan: RenamePlan, undo: Path) -> None:
    """Rename all files or none. `undo` is written first, so that also a run that is killed can be taken back."""
    write_undo(undo, plan.folder, plan.moves)
    try:
        _move_all(plan.folder, [(move.old, move.new) for move in plan.moves])
    except _HalfDoneError:
        raise
    except MsdumpError:
        undo.unlink(missing_ok=True)
        raise


def take_back(folder: Path, moves: Sequence[Move]) -> int:
    """Give all files their old names again, or none, and return how many did not have them yet."""
    back = []
    for move in moves:
        is_new, is_old = os.path.lexists(folder / move.new), os.path.lexists(folder / move.old)
        if is_new and is_old and not _is_one_file(folder / move.new, folder / move.old):
            raise ConfigError(f"{move.new} was {move.old}, but that is there, too; move one of them away")
        if not is_new and not is_old:
            raise ConfigError(f"{move.new} is gone, and so is {move.old}; nothing was renamed")
        if is_new:
            back.append((move.new, move.old))
    _move_all(folder, back)
    return len(back)


class _HalfDoneError(MsdumpError):
    """Neither all nor nothing: names could not be given back either."""


def _move_all(folder: Path, names: Sequence[tuple[str, str]]) -> None:
    done: list[tuple[str, str]] = []
    try:
        for old, new in names:
            _move(folder / old, folder / new)
            done.append((old, new))
    except BaseException as error:
        _give_back(folder, done)
        if not isinstance(error, OSError):
            raise
        old, new = names[len(done)]
        reason = error.strerror or str(error)
        raise MsdumpError(f"{folder / old}: cannot be renamed to {new}: {reason}; nothing was renamed") from error


def _give_back(folder: Path, done: Sequence[tuple[str, str]]) -> None:
    old, new = "", ""
    try:
        for old, new in reversed(done):
            _move(folder / new, folder / old)
    except OSError as error:
        raise _HalfDoneError(
            f"{folder / new}: was {old} and cannot be named so again: {error.strerror or error}; some files have new "
            "names: when that is mended, take them back by the undo file"
        ) from error


def _is_one_file(first: Path, second: Path) -> bool:
    try:
        return os.path.samestat(first.lstat(), second.lstat())
    except OSError:
        return False


def _move(old: Path, new: Path) -> None:
    """Rename without ever overwriting another file, also one that came just now."""
    try:
        os.link(old, new, follow_symlinks=False)
    except FileExistsError:
        # A run that was killed between link and unlink leaves one file with both names.
        if not _is_one_file(old, new):
            raise
    except (OSError, NotImplementedError):
        # File systems without hard links.
        if os.path.lexists(new):
            raise FileExistsError(17, os.strerror(17), str(new)) from None
        old.rename(new)
        return
    try:
        old.unlink()
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise


DESCRIPTION = (
    "Rename the .npy files of a folder, and of its numbered sub-folders, to OP.SLOT.TIME.npy: all of those that the "
    "pattern fits, or none. No file is ever written over. A file for --undo is written first."
)
EXAMPLES = ("msdump rename saved --pattern '{op}-{slot}.npy' --dry-run",)

_OTHERS_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the folder and what to do with it."""
    parser.add_argument("folder", metavar="FOLDER", help="a folder of .npy files")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--pattern",
        metavar="PATTERN",
        help="the whole name: a template such as '{op}-{slot}.npy' ({op}, {slot}, {time}, {any}), or a regular "
        "expression with the named groups op, slot and time",
    )
    what.add_argument("--undo", metavar="FILE", help="take back what was renamed when FILE was written")
    parser.add_argument("--dry-run", action="store_true", help="show the new names, change nothing")
    parser.add_argument("--undo-file", metavar="FILE", help="write the undo file there, not beside FOLDER")


def run(parsed: argparse.Namespace) -> int:
    """Rename or take back, and print what was done; return the exit code."""
    folder = Path(parsed.folder)
    if parsed.undo is not None:
        return _take_back(folder, parsed)
    plan = plan_renaming(folder, parsed.pattern)
    undo = Path(parsed.undo_file) if parsed.undo_file is not None else new_undo_file(folder)
    if not parsed.dry_run:
        apply(plan, undo)
    print_lines(f"{move.old} -> {move.new}" for move in plan.moves)
    say, count = phrases(parsed), len(plan.moves)
    if plan.fitting:
        print_lines([say("left_alone_named", n=plan.fitting)])
    if plan.others:
        print_lines([say("left_alone_others", n=len(plan.others), names=say.named(plan.others, _OTHERS_SHOWN))])
    if parsed.dry_run:
        print_lines([say("would_rename", n=count)])
    else:
        shown = shell_line(["msdump", "rename", str(folder), "--undo", os.path.relpath(undo)])
        print_lines([say("renamed", n=count, line=shown)])
    return 0


def _take_back(folder: Path, parsed: argparse.Namespace) -> int:
    if parsed.dry_run or parsed.undo_file is not None:
        raise ConfigError("--undo takes back what was done, alone: leave --dry-run and --undo-file out")
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such directory; give the folder that was renamed")
    count = take_back(folder, read_undo(Path(parsed.undo)))
    print_lines([phrases(parsed)("renamed_back" if count else "renamed_none", n=count)])
    return 0
