"""Where in a repository a failing tensor belongs, and what machines of CI read of it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from pytest_msdump.escape import github_command, terminal_text
from pytest_msdump.model.record import Record
from pytest_msdump.model.report import Report
from pytest_msdump.model.tensor import COORDINATES
from pytest_msdump.report.causes import folded_line, role_line
from pytest_msdump.report.coverage import coverage_problems
from pytest_msdump.report.failure import one_line
from pytest_msdump.storage.files import read_regular, write_file

__all__ = ["commands_for_github", "write_for_gitlab"]

# A file of the repository, its parts joined by "/", and a line counted from 1; no file where nobody knows of any.
Place = tuple[str | None, int]
# Where a record, or (without one) the suite as a whole, belongs.
Locate = Callable[[Record | None], Place]

# Kinds by their weight.
_RANKS = ("coverage", "cause", "unknown", "inherited")


@dataclass(frozen=True, slots=True)
class Annotation:
    """One thing that fails.

    Parameters
    ----------
    kind : str
        ``"coverage"``, or what a tensor is to the failure: ``"cause"``, ``"unknown"``, ``"inherited"``.
    verdict : str
        The tensor's; ``"fail"`` of the coverage.
    place : Place
        File and line it belongs to.
    identity : tuple of str
        What tells it from all others, and stays when numbers or lines change.
    title, lines : str, tuple of str
        Texts of one line each.
    folded : bool
        Whether a cause of it is told already.
    """

    kind: str
    verdict: str
    place: Place
    identity: tuple[str, ...]
    title: str
    lines: tuple[str, ...]
    folded: bool = False


def annotate(reports: Sequence[tuple[Report, Locate]]) -> list[Annotation]:
    """Return what fails in some suites: coverage, then causes, then what may be one, then what is inherited.

    Parameters
    ----------
    reports : sequence of (Report, Locate)
        Each suite's report, and what tells where its tensors belong.
    """
    found = [one for report, locate in reports for one in _of(report, locate)]
    return sorted(found, key=lambda one: _RANKS.index(one.kind))


def _of(report: Report, locate: Locate) -> Iterator[Annotation]:
    suite = locate(None)
    for number, problem in enumerate(coverage_problems(report)):
        identity = ("coverage", suite[0] or "", str(number))
        yield Annotation("coverage", "fail", suite, identity, "msdump: coverage", (terminal_text(problem),))
    for record in report.records:
        if record.fails:
            yield _of_record(record, suite, locate)


def _of_record(record: Record, suite: Place, locate: Locate) -> Annotation:
    left, right = record.left.address, record.right.address
    role = role_line(record)
    return Annotation(
        kind=record.role or "unknown",
        verdict=record.verdict.outcome,
        place=locate(record),
        identity=("tensor", suite[0] or "", left, right, *(str(getattr(record.left.at, name)) for name in COORDINATES)),
        title=f"msdump: {terminal_text(left)}",
        lines=tuple(line for line in (one_line(record), role) if line),
        folded=folded_line([record]) is not None,
    )


# -- Workflow commands of GitHub Actions -----------------------------------------------------------------------------


# GitHub shows ten errors of a step, and passes over the others in silence.
_MOST = 10


def github_lines(found: Sequence[Annotation]) -> Iterator[str]:
    """Yield a line for each of the first ten, and one that counts the others.

    Parameters
    ----------
    found : sequence of Annotation
        Most important first. What is inherited from a cause that is told is counted only.
    """
    told = [one for one in found if not one.folded]
    for one in told[:_MOST]:
        file, line = one.place
        place = {} if file is None else {"file": file, "line": str(line)}
        yield github_command("error", {**place, "title": one.title}, "\n".join(one.lines))
    rest, folded = len(told[_MOST:]), len(found) - len(told)
    parts = [f"{rest} more failing"] if rest else []
    parts += [f"{folded} inherited"] if folded else []
    if parts:
        yield github_command("notice", {"title": "msdump"}, f"and {', '.join(parts)}; results.json has them all")


# -- gl-code-quality.json --------------------------------------------------------------------------------------------


_SEVERITIES = {"coverage": "critical", "cause": "critical", "unknown": "major", "inherited": "minor"}
# GitLab requires a path; one that no file has leads nowhere, which is true.
_NO_FILE = "msdump"


def write_code_quality(found: Sequence[Annotation], directory: Path) -> Path:
    """Write gl-code-quality.json into `directory` and return its path.

    Raises
    ------
    MsdumpError
        The file cannot be written.
    """
    text = json.dumps(code_quality(found), indent=1, allow_nan=False)
    return write_file(directory, "gl-code-quality.json", text.encode("ascii") + b"\n")


def code_quality(found: Sequence[Annotation]) -> list[dict[str, Any]]:
    """Return an entry for each failure; GitLab tells by `fingerprint` which are new in a merge request.

    Parameters
    ----------
    found : sequence of Annotation
        Most important first.
    """
    return [
        {
            "description": "; ".join(one.lines),
            "check_name": f"msdump.{'coverage' if one.kind == 'coverage' else one.verdict}",
            "fingerprint": _fingerprint(one.identity),
            "severity": _SEVERITIES[one.kind],
            "location": {"path": one.place[0] or _NO_FILE, "lines": {"begin": one.place[1]}},
        }
        for one in found
    ]


def _fingerprint(identity: tuple[str, ...]) -> str:
    # As JSON, since a name may hold any character that could be put between the parts.
    return hashlib.sha256(json.dumps(identity).encode("ascii")).hexdigest()


# -- Where in a repository a failing tensor belongs, and what machines of CI read of it ------------------------------


# What each service calls the repository's folder: the paths that it reads begin there.
_GITHUB, _GITLAB = "GITHUB_WORKSPACE", "CI_PROJECT_DIR"
_LONGEST_PATH, _LARGEST_PROGRAM = 64, 1 << 22


def commands_for_github(reports: Sequence[Report], root: Path | None = None) -> list[str]:
    """Return the lines to print in a job of GitHub.

    Parameters
    ----------
    reports : sequence of Report
        All suites of the run: GitHub counts by step.
    root : Path, optional
        Where paths begin, unless the service says so itself; the current folder by default.
    """
    return list(github_lines(annotated(reports, _base(_GITHUB, root))))


def write_for_gitlab(reports: Sequence[Report], directory: Path, root: Path | None = None) -> Path:
    """Write gl-code-quality.json into `directory` and return its path; `reports` and `root` as for GitHub.

    Raises
    ------
    MsdumpError
        The file cannot be written.
    """
    return write_code_quality(annotated(reports, _base(_GITLAB, root)), directory)


def annotated(reports: Sequence[Report], root: Path) -> list[Annotation]:
    """Return what fails in some suites, with places below `root`."""
    return annotate([(report, partial(_place, _suite_place(report, root), root)) for report in reports])


def _base(variable: str, root: Path | None) -> Path:
    """The repository's folder, when the service names it and we are in it."""
    # Links are followed on neither side: a checkout may lie behind one.
    here = Path(os.path.abspath(root or Path.cwd()))  # noqa: PTH100 - resolve() would follow links
    named = os.environ.get(variable)
    above = Path(os.path.abspath(named)) if named else here  # noqa: PTH100 - as above
    return above if here.is_relative_to(above) else here


def _place(suite: Place, root: Path, record: Record | None) -> Place:
    """The line of the program where it is known and in the repository, else the suite file."""
    source = record.left.source if record is not None else None
    if source is None:
        return suite
    found = _found(source.file, source.line, source.text, root)
    return suite if found is None else (found, source.line)


def _suite_place(report: Report, root: Path) -> Place:
    """The suite file, when there is one and it is in the repository."""
    if report.rerun[:1] != ("--config",) or len(report.rerun) == 1:
        return None, 1
    return _below(root, Path(report.rerun[1])), 1


def _found(file: str, line: int, text: str, root: Path) -> str | None:
    """The program's file in the repository; of a program that ran elsewhere, the one whose line is the same."""
    there = _below(root, root / file)
    if there is not None:
        return there
    for parts in _endings(file) if text.strip() else ():
        candidate = root.joinpath(*parts)
        if _below(root, candidate) is not None and _line(candidate, line) == text.strip():
            return _below(root, candidate)
    return None


def _endings(file: str) -> Iterator[tuple[str, ...]]:
    """The path, ever shorter from its front; graphs are made on other machines, and of other kinds."""
    pure = PureWindowsPath(file) if "\\" in file else PurePosixPath(file)
    parts = tuple(part for part in pure.parts if part != pure.anchor)[-_LONGEST_PATH:]
    if ".." not in parts:
        yield from (parts[start:] for start in range(len(parts)))


def _below(root: Path, path: Path) -> str | None:
    """The path from `root` on, if it is that of a file below it."""
    whole = Path(os.path.abspath(root / path))  # noqa: PTH100 - as in _base
    try:
        there = whole.is_relative_to(root) and whole.is_file()
        told = whole.relative_to(root).as_posix() if there else None
        # A name that is no text can be neither printed nor put into JSON that others read.
        return None if told is None or not told.isprintable() else told
    except OSError:
        return None


def _line(file: Path, number: int) -> str | None:
    """A line of a program, without the space around it."""
    try:
        lines = read_regular(file, _LARGEST_PROGRAM).splitlines()
    except OSError:
        return None
    return lines[number - 1].decode("utf-8", errors="replace").strip() if 0 < number <= len(lines) else None
