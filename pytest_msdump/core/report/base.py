"""What a kind of report is, and which there are: those of the core, of capabilities and of other packages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import ClassVar, NamedTuple

from pytest_msdump.core import registry
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.ports import bound, load, rows
from pytest_msdump.core.storage.files import open_regular
from pytest_msdump.core.text import Message, Phrases

_FIRST_BYTES = 4096


class Curve(NamedTuple):
    """Numbers above 0 by place, drawn on a scale of powers of ten; one of them may be marked, with a label.

    A place stands for `step` of what is counted, from 0; `ticks` are places that are named. The caption says what is
    drawn.
    """

    values: tuple[float, ...]
    caption: Message
    step: int = 1
    ticks: tuple[tuple[int, Message], ...] = ()
    limit: float | None = None
    marked: int | None = None
    label: Message | None = None


class Section(NamedTuple):
    """What a capability adds to the page: a title and rows of cells; heads, a curve, a marked row and a note."""

    title: Message | str
    rows: Sequence[Sequence[Message | str]]
    heads: tuple[Message, ...] = ()
    curve: Curve | None = None
    marked: int | None = None
    note: Message | None = None


class ReportKind(ABC):
    """One kind of report: a row of ``REPORTS``, or from another package's entry-point group ``pytest_msdump.report``.

    Attributes
    ----------
    name : str
        The word for it in ``--msdump-report``, also the name of its entry point.
    file : str
        Name of the file in the report directory. One of an earlier run is removed before a run begins.
    """

    name: ClassVar[str]
    file: ClassVar[str]

    @abstractmethod
    def write(self, report: Report, directory: Path) -> Path:
        """Write `file` into `directory`, whole or not at all, and return its path.

        `storage.files.write_file` does so, and makes the directory. Names in a report come from dumps: `escape` has a
        function for each place they may be written to.

        Raises
        ------
        MsdumpError
            It cannot be written; the text says which file.
        """


class Summariser:
    """What a capability says of failures, beside the core: a row ``summarised`` of ``STAGES`` names the class."""

    def record_lines(self, record: Record, say: Phrases) -> Sequence[str]:  # noqa: ARG002 - for those that say something
        """Return lines for the heading of a failing tensor; they are wrapped."""
        return ()

    def place_of(self, record: Record, say: Phrases) -> str:  # noqa: ARG002
        """Return where the mistake of a cause lies: module, line, region."""
        return ""

    def summary_lines(
        self,
        report: Report,  # noqa: ARG002
        *,
        width: int,  # noqa: ARG002
        told: Collection[int],  # noqa: ARG002
        unfolded: bool,  # noqa: ARG002
        say: Phrases,  # noqa: ARG002
    ) -> Sequence[str]:
        """Return lines of the summary on what started it.

        `told` are the places of operators that were told in full before, and `unfolded` asks for all there is to list.
        """
        return ()

    def advice_lines(self, report: Report, *, width: int, unfolded: bool, say: Phrases) -> Sequence[str]:  # noqa: ARG002
        """Return lines behind them on what to do, where something fails."""
        return ()

    def caveats(self, report: Report, say: Phrases) -> Sequence[str]:  # noqa: ARG002
        """Return sentences on what the result leaves open."""
        return ()


@cache
def summarisers(*, is_notable: bool = True) -> tuple[Summariser, ...]:
    """Return those of all capabilities, in order; some only where something fails or a network was localised."""
    return tuple(make() for make in bound("summarised", ("", "notable") if is_notable else ("",)))


class RunReport:
    """A report about all suites of a run together, for a CI service; `root` is the folder where its paths begin."""

    def lines(self, reports: Sequence[Report], root: Path | None) -> list[str]:  # noqa: ARG002 - for those that print
        """Return the lines to print."""
        return []

    def write(self, reports: Sequence[Report], directory: Path, root: Path | None) -> Path | None:  # noqa: ARG002
        """Write its file, if it has one, as `ReportKind.write` does."""
        return None


def report_kind(name: str) -> ReportKind | RunReport:
    """Return a kind of report by its name."""
    row = rows("REPORTS").get(name)
    found: ReportKind | RunReport = (registry.entries("report")[name] if row is None else load(row["class"]))()
    return found


def file_kinds(kinds: Iterable[str]) -> list[str]:
    """Leave out the kinds that are printed, not written."""
    return [kind for kind in kinds if rows("REPORTS").get(kind, {"file": kind})["file"]]


def kinds_of_the_run(kinds: Iterable[str]) -> list[str]:
    """Leave only kinds of which a run has one, however many suites it has."""
    return [kind for kind in kinds if rows("REPORTS").get(kind, {}).get("of_run")]


def printed_lines(kinds: Iterable[str], reports: Sequence[Report], root: Path | None = None) -> list[str]:
    """Return what some kinds of report print of a run; CI services read these lines as they are."""
    found = map(report_kind, kinds_of_the_run(kinds))
    return [line for kind in found if isinstance(kind, RunReport) for line in kind.lines(reports, root)]


def write_kind(kind: str, reports: Sequence[Report], directory: Path, root: Path | None = None) -> list[Path]:
    """Write one kind of report about all suites of a run, or about one suite; return the file, if it is one."""
    found = report_kind(kind)
    written = (
        found.write(reports, directory, root) if isinstance(found, RunReport) else found.write(reports[0], directory)
    )
    return [] if written is None else [written]


def remove_reports(directory: Path, kinds: Collection[str], *, keep: str = "") -> None:
    """Remove the files of some kinds of report, and of other kinds what this package wrote, except the file `keep`."""
    known = rows("REPORTS")
    files = {kind: row["file"] for kind, row in known.items() if row["file"]}
    for kind, name in files.items():
        begins = known[kind]["begins"].encode()
        if name != keep and (kind in kinds or _begins_with(directory / name, begins)):
            with suppress(OSError):
                (directory / name).unlink()
    for kind in kinds:
        if kind not in known and isinstance(found := report_kind(kind), ReportKind):
            with suppress(OSError):
                (directory / found.file).unlink()


def _begins_with(file: Path, beginning: bytes) -> bool:
    """Whether a text stands within the first bytes of a file."""
    try:
        with open_regular(file) as stream:
            return beginning in stream.read(_FIRST_BYTES)
    except OSError:
        return False
