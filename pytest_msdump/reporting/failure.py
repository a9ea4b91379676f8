"""What a failing test item says: for a person who has to mend it, with numbers, places and a command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_msdump.escape import terminal_text
from pytest_msdump.model.record import Record, ReportedTensor
from pytest_msdump.model.source_lines import SourceFrame
from pytest_msdump.model.tensor import COORDINATES, mangle
from pytest_msdump.model.verdict import Finding
from pytest_msdump.reporting import evidence
from pytest_msdump.reporting.arguments import argument_lines
from pytest_msdump.reporting.diagnosis import diagnosis_lines
from pytest_msdump.reporting.numbers import index_text, number
from pytest_msdump.reporting.statistics import statistics_table
from pytest_msdump.reporting.tables import columns, command, filled, pieces
from pytest_msdump.text import ENGLISH, Phrases

__all__ = ["failure_text", "one_line", "record_text"]

_HOW = {"name": "same_name", "mangled": "same_name_as", "mapped": "by_map", "fused": "by_rule_file"}
_BY_NAME = ("name", "mangled")

_NARROWEST = 80


def failure_text(
    records: Sequence[Record],
    *,
    operators: int,
    width: int = 80,
    rerun: Sequence[str] = (),
    left_root: str = "",
    right_root: str = "",
    say: Phrases = ENGLISH,
) -> str:
    """Return the text of one test item: its failing tensors in full, the others on a line each.

    Parameters
    ----------
    records : sequence of Record
        The item's records.
    operators : int
        Number of left operators, for "op 5 of 14".
    width : int
        Columns to fill; less than 80 counts as 80.
    rerun : sequence of str
        The words of the shell command that runs just this item.
    left_root, right_root : str
        The two dumps as the user named them; they are put before the file names.
    say : Phrases
        The language.

    Returns
    -------
    str
        Plain text without colour or a line break at its end. Only a command may hold a line longer than `width`: a
        word of it is never broken.
    """
    width = max(width, _NARROWEST)
    lines: list[str] = []
    for record in records:
        if record.fails:
            lines += ["", *_block(record, operators, width, (left_root, right_root), say)]
    others = [one_line(record, say) for record in records if not record.fails]
    if others:
        lines.append("")
        lines += [line for text in others for line in _hanging(text, width)]
    if rerun:
        lines += ["", say("rerun"), *(f"  {line}" for line in command(rerun, width=width - 2))]
    return "\n".join(lines[1:])


def record_text(
    record: Record,
    *,
    operators: int,
    width: int = 80,
    left_root: str = "",
    right_root: str = "",
    say: Phrases = ENGLISH,
) -> str:
    """Return one record in full, whatever its verdict; parameters as of `failure_text`."""
    return "\n".join(_block(record, operators, max(width, _NARROWEST), (left_root, right_root), say))


def one_line(record: Record, say: Phrases = ENGLISH) -> str:
    """Return one record as one line, for ``-q``, ``--tb=line`` and JUnit.

    Examples
    --------
    ``DRIFT conv2:output:0: cosine_similarity 0.39 is below 0.999 (profile default (float32)); max abs 1.37 at [0, 3]``
    """
    verdict, address = record.verdict.outcome, terminal_text(record.left.address)
    told = [finding for finding in record.verdict.findings if finding.outcome == verdict]
    parts = [terminal_text(say.of(told[0].message))] if told else []
    if len(told) > 1:
        parts.append(say("and_more", n=len(told) - 1))
    if not told and (record.elements is not None or record.statistics is not None):
        parts.append(say("equal" if record.equal else "every_limit_met"))
    if record.statistics is not None:
        parts.append(say("statistics_only"))
    parts += _largest_error(record, told, say)
    text = f"{say(verdict.upper())} {address}"
    text = f"{_where_in_run(text, record, say)}{_short_line(record)}"
    return say("after_label", label=text, text=say.joined(parts, "between_clauses")) if parts else text


def _where_in_run(text: str, record: Record, say: Phrases) -> str:
    """Add the coordinates that a line of its own needs: those beyond the first of everything."""
    at = record.left.at
    named = (("rank", at.rank), ("graph", at.graph), ("iteration", at.iteration), ("occurrence", at.occurrence))
    later = [f"{name} {value}" for name, value in named if value]
    return say("in_brackets", text=text, aside=say.joined(later)) if later else text


def _short_line(record: Record) -> str:
    """The line of the program, by the bare name of its file."""
    source = record.left.source
    return f" [{terminal_text(source.file.rpartition('/')[2])}:{source.line}]" if source else ""


def _largest_error(record: Record, told: Sequence[Finding], say: Phrases) -> list[str]:
    """The greatest difference and its place, unless a sentence has told it."""
    value = record.metrics.get("max_absolute_error")
    if value is None or isinstance(value, tuple) or record.equal:
        return []
    if any(finding.metric == "max_absolute_error" for finding in told[:1]):
        return []
    place = record.places.get("max_absolute_error")
    text = say("largest_error", value=number(value))
    return [say("at", text=text, place=index_text(place)) if place else text]


def _block(record: Record, operators: int, width: int, roots: tuple[str, str], say: Phrases) -> Iterator[str]:
    """One failing tensor in full."""
    yield from _heading(record, operators, width, say)
    for label, side, root in zip(("left", "right"), (record.left, record.right), roots, strict=True):
        yield from _side(label, side, root, width, say)
    beside = statistics_table(record, width, say)
    if beside:
        yield from ("", *beside)
    if record.elements is not None or beside:
        yield ""
        yield from evidence.metrics_table(record, width, say)
    yield from evidence.other_numbers(record, width, say)
    worst = list(evidence.worst_elements(record, width, say))
    if worst:
        yield from ("", *worst)
    told = [*diagnosis_lines(record, width, say), *argument_lines(record, width, say)]
    told += [*evidence.sentences(record, width, say), *evidence.would_pass(record, width, say)]
    if told:
        yield from ("", *told)


def _heading(record: Record, operators: int, width: int, say: Phrases) -> Iterator[str]:
    """Verdict and address, place in the run, and why these two met."""
    from pytest_msdump.reporting.roles import role_line
    from pytest_msdump.reporting.suspicious import suspicious_line

    word = say(record.verdict.outcome.upper())
    indent = " " * (columns(word) + 2)
    first, *rest = pieces(terminal_text(record.left.address), width - len(indent))
    yield f"{word}  {first}"
    for parts in ((_place(record, operators, say), _at(record, say)), (_paired(record, say), _transform(record, say))):
        text = say.joined((part for part in parts if part), "between_clauses")
        rest += filled(terminal_text(text), width - len(indent)) if text else []
    rest += [part for text in _made_by(record, say) for part in pieces(terminal_text(text), width - len(indent))]
    rest += filled(role_line(record, say), width - len(indent)) if record.role is not None else []
    rest += filled(suspicious_line(record, say), width - len(indent)) if record.suspicious else []
    yield from (indent + line for line in rest)


def _place(record: Record, operators: int, say: Phrases) -> str:
    """Where in the run the operator is; two loose files are in no run."""
    return "" if record.how == "file" else say("place", place=record.order + 1, operators=operators)


def _at(record: Record, say: Phrases) -> str:
    """Which run of the operator."""
    return say.joined(f"{name} {value}" for name, value in _shown(record, say))


def _paired(record: Record, say: Phrases) -> str:
    """Why these two met; that two loose files were given together needs no words."""
    how = record.how
    if how == "file":
        return ""
    if how in _BY_NAME or (how in _HOW and not record.by):
        return say("paired", by=say(_HOW[how], name=mangle(record.left.key.op.label)))
    return say("paired", by=record.by or how)


def _made_by(record: Record, say: Phrases) -> Iterator[str]:
    """The line of the user's program, to go to and to read; the right side's too where it has one of its own."""
    source, other = record.left.source, record.right.source
    if source:
        yield from _line(say("made_by"), source)
    if other and other != source:
        yield from _line(say("right_made_by"), other)


def _line(label: str, source: SourceFrame) -> Iterator[str]:
    """Place and code of a line of a program."""
    yield f"{label} {source.file}:{source.line}"
    if source.text:
        yield f"  {source.text}"


def _shown(record: Record, say: Phrases) -> Iterator[tuple[str, Any]]:
    """The coordinates to tell: those the left side has, and where the right side's differ, those too."""
    for name in COORDINATES:
        value, other = getattr(record.left.at, name), getattr(record.right.at, name)
        # The first occurrence is the ordinary case and would only be noise.
        if value is not None and (name != "occurrence" or value or other):
            is_other = other is not None and other != value
            yield name, say("right_is", value=value, other=other) if is_other else value


def _transform(record: Record, say: Phrases) -> str:
    """How the right side was brought to the left; an axis order concerns 4-D tensors alone."""
    transform, shape = record.transform, record.right.shape
    formats = (("left", transform.left_format), ("right", transform.right_format))
    parts = []
    if shape is None or len(shape) == 4:
        parts += [say(f"{side}_read_as", memory_format=name) for side, name in formats if name is not None]
    if transform.transpose is not None:
        parts.append(say("right_transposed", axes=index_text(transform.transpose)))
    if transform.reshape:
        parts.append(say("right_reshaped"))
    return say.joined(parts)


def _side(label: str, side: ReportedTensor, root: str, width: int, say: Phrases) -> Iterator[str]:
    """One side: its file, whole, and what is in it."""
    title = say(label)
    start, column = f"  {title}{' ' * (5 - columns(title))}  ", 9
    path = terminal_text(_path(root, side.file))
    path = path if side.row is None else say("row_of_file", file=path, row=side.row)
    described = [side.dtype or say("dtype_unknown")]
    described += [side.memory_format] if side.memory_format else []
    described.append(say("shape_unknown") if side.shape is None else _shape(side.shape))
    if side.logical_shape is not None:
        described.append(f"-> {_shape(side.logical_shape)}")
    lines = [*pieces(path, width - column), *filled(terminal_text(" ".join(described)), width - column)]
    yield start + lines[0]
    yield from (" " * column + line for line in lines[1:])


def _path(root: str, file: str) -> str:
    """The file below its dump; a dump that is one file is that file."""
    if not root or file.startswith("/") or root == file or root.endswith(f"/{file}"):
        return root if root.endswith(file) else file
    return f"{root.rstrip('/')}/{file}"


def _shape(shape: Sequence[int]) -> str:
    """A shape as Python writes tuples."""
    return str(tuple(shape))


def _hanging(text: str, width: int) -> list[str]:
    """A line that, when it is too long, goes on indented."""
    first, *rest = filled(text, width - 2)
    return [first, *(f"  {line}" for line in rest)]
