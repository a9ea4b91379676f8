"""Where in a repository a failing tensor belongs, and what machines of CI read of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath

from pytest_msdump.model.record import Record
from pytest_msdump.model.report import Report
from pytest_msdump.reporting.annotations import Annotation, Place, annotate
from pytest_msdump.reporting.github import github_lines
from pytest_msdump.reporting.gitlab import write_code_quality
from pytest_msdump.storage.regular import read_regular

__all__ = ["annotated", "commands_for_github", "write_for_gitlab"]

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
