"""What CI services read: workflow commands of GitHub Actions, and GitLab's code quality report."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

from pytest_msdump.capabilities.causes.summarised import loose_limits, role_line
from pytest_msdump.core.escape import github_command, terminal_text
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.model.tensor import COORDINATES
from pytest_msdump.core.report.base import RunReport
from pytest_msdump.core.report.coverage import coverage_problems, first_failing
from pytest_msdump.core.report.failure import one_line
from pytest_msdump.core.report.shown import is_inherited
from pytest_msdump.core.storage.files import read_regular, write_file
from pytest_msdump.core.text import ENGLISH, Phrases

# A file of the repository, its parts joined by "/" (none if the repository has no such file), and a line from 1.
Place = tuple[str | None, int]

# GitHub shows ten errors of a step, and passes over the others in silence.
_MOST_ERRORS = 10
# By kind, the most important first: what GitLab calls it.
_SEVERITIES = {
    "coverage": "critical",
    "cause": "critical",
    "unknown": "major",
    "accumulated": "major",
    "inherited": "minor",
}
_RANKS = tuple(_SEVERITIES)
# GitLab requires a path; a failure that belongs to no file gets one that leads nowhere.
_NO_FILE = "msdump"
_LONGEST_PATH, _LARGEST_PROGRAM = 64, 1 << 22


@dataclass(frozen=True, slots=True)
class _Failure:
    """One thing that fails, or makes others fail: `kind` is "coverage" or the role of the tensor."""

    kind: str
    verdict: str
    place: Place
    identity: tuple[str, ...]
    title: str
    lines: tuple[str, ...]
    is_folded: bool = False


class GithubReport(RunReport):
    """``github``: workflow commands to print: an error for each of the first ten failures; GitHub counts by step."""

    def lines(self, reports: Sequence[Report], root: Path | None) -> list[str]:
        """Return the commands; paths begin at the repository's folder as the service names it, else at `root`."""
        found = _failures(reports, _base("GITHUB_WORKSPACE", root))
        listed = [one for one in found if not one.is_folded]
        lines = []
        for one in listed[:_MOST_ERRORS]:
            file, line = one.place
            place = {} if file is None else {"file": file, "line": str(line)}
            lines.append(github_command("error", {**place, "title": one.title}, "\n".join(one.lines)))
        rest, folded = len(listed[_MOST_ERRORS:]), Counter(one.kind for one in found if one.is_folded)
        parts = [f"{rest} more failing"] if rest else []
        parts += [f"{folded[kind]} {kind}" for kind in ("accumulated", "inherited") if folded[kind]]
        if parts:
            text = f"and {', '.join(parts)}; results.json has them all"
            lines.append(github_command("notice", {"title": "msdump"}, text))
        return lines


class GitlabReport(RunReport):
    """``gitlab``: gl-code-quality.json; by `fingerprint` GitLab sees which failures a merge request adds."""

    def write(self, reports: Sequence[Report], directory: Path, root: Path | None) -> Path:
        """Write gl-code-quality.json into `directory`."""
        entries = [
            {
                "description": "; ".join(one.lines),
                "check_name": f"msdump.{'coverage' if one.kind == 'coverage' else one.verdict}",
                # As JSON: a name may hold any character that could be put between the parts.
                "fingerprint": hashlib.sha256(json.dumps(one.identity).encode("ascii")).hexdigest(),
                "severity": _SEVERITIES[one.kind],
                "location": {"path": one.place[0] or _NO_FILE, "lines": {"begin": one.place[1]}},
            }
            for one in _failures(reports, _base("CI_PROJECT_DIR", root))
        ]
        text = json.dumps(entries, indent=1, allow_nan=False)
        return write_file(directory, "gl-code-quality.json", text.encode("ascii") + b"\n")


def _failures(reports: Sequence[Report], root: Path) -> list[_Failure]:
    """Return what fails in some suites: coverage, then causes, then what may be one, then what is inherited."""
    found = [one for report in reports for one in _failures_of(report, root)]
    return sorted(found, key=lambda one: _RANKS.index(one.kind))


def _failures_of(report: Report, root: Path) -> Iterator[_Failure]:
    is_suite = len(report.rerun) > 1 and report.rerun[0] == "--config"
    suite: Place = (_below(root, Path(report.rerun[1])) if is_suite else None, 1)
    for number, problem in enumerate(coverage_problems(report)):
        identity = ("coverage", suite[0] or "", str(number))
        yield _Failure("coverage", "fail", suite, identity, "msdump: coverage", (terminal_text(problem),))
    first = first_failing(report.records)
    cause = next((record for record in report.records if record.role == "cause"), first)
    say = ENGLISH.calling(report.left.shown)
    caveat = loose_limits(report.records, say)
    for record in report.records:
        # A cause may pass: its error jumped, and what follows fails.
        if record.fails or record.role == "cause":
            is_later = record is cause and first is not None and first is not cause
            more = [f"first to fail: {one_line(first, say)}"] if first and is_later else []
            more += [caveat] if record is cause and caveat else []
            left, right = record.left.address, record.right.address
            at = [str(getattr(record.left.at, name)) for name in COORDINATES]
            yield _Failure(
                kind=record.role or "unknown",
                verdict=record.verdict.outcome if record.fails else "cause",
                place=_program_place(record, root) or suite,
                identity=("tensor", suite[0] or "", left, right, *at),
                title=f"msdump: {terminal_text(say.name(left))}",
                lines=tuple(filter(None, (*_told(record, say), *more))),
                is_folded=is_inherited(record),
            )


def _told(record: Record, say: Phrases) -> tuple[str, str]:
    """Return what is said of a tensor; of a cause first where it is."""
    told = one_line(record, say), role_line(record, say)
    return told[::-1] if record.role == "cause" else told


def _base(variable: str, root: Path | None) -> Path:
    """Return the repository's folder, if the service names it and we are in it."""
    # Links are followed on neither side: a checkout may lie behind one.
    here = Path(os.path.abspath(root or Path.cwd()))  # noqa: PTH100 - resolve() would follow links
    named = os.environ.get(variable)
    above = Path(os.path.abspath(named)) if named else here  # noqa: PTH100 - as above
    return above if here.is_relative_to(above) else here


def _program_place(record: Record, root: Path) -> Place | None:
    """Return the line of the program that made the operator; if it ran elsewhere, the file of ours with that line."""
    source = record.left.source
    if source is None:
        return None
    there = _below(root, root / source.file)
    if there is not None:
        return there, source.line
    text = source.text.strip()
    for parts in _endings(source.file) if text else ():
        candidate = root.joinpath(*parts)
        found = _below(root, candidate)
        if found is not None and _line(candidate, source.line) == text:
            return found, source.line
    return None


def _endings(file: str) -> Iterator[tuple[str, ...]]:
    """Yield the path, ever shorter from its front; graphs are made on other machines, and of other kinds."""
    pure = PureWindowsPath(file) if "\\" in file else PurePosixPath(file)
    parts = tuple(part for part in pure.parts if part != pure.anchor)[-_LONGEST_PATH:]
    if ".." not in parts:
        yield from (parts[start:] for start in range(len(parts)))


def _below(root: Path, path: Path) -> str | None:
    """Return the path from `root` on, if it is that of a file below it."""
    whole = Path(os.path.abspath(root / path))  # noqa: PTH100 - as in _base
    try:
        found = whole.relative_to(root).as_posix() if whole.is_relative_to(root) and whole.is_file() else None
    except OSError:
        return None
    # A name that is no text can be neither printed nor put into JSON that others read.
    return found if found is not None and found.isprintable() else None


def _line(file: Path, number: int) -> str | None:
    """Return a line of a program, without the space around it."""
    try:
        lines = read_regular(file, _LARGEST_PROGRAM).splitlines()
    except OSError:
        return None
    return lines[number - 1].decode("utf-8", errors="replace").strip() if 0 < number <= len(lines) else None
