"""What a failing test item says: for a person who has to mend it, with numbers, places and a command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_msdump.model.tensor import COORDINATES
from pytest_msdump.reporting import evidence
from pytest_msdump.reporting.arguments import argument_lines
from pytest_msdump.reporting.diagnosis import diagnosis_lines
from pytest_msdump.reporting.numbers import index_text, number, one_line_text
from pytest_msdump.reporting.roles import role_line
from pytest_msdump.reporting.statistics import statistics_table
from pytest_msdump.reporting.tables import command, filled, pieces
from pytest_msdump.reporting.tally import FAILING
from pytest_msdump.reporting.values import NONFINITE

__all__ = ["failure_text", "one_line", "record_text"]

Entry = Mapping[str, Any]

_WORDS = {
    "pass": "PASS",
    "warn": "WARN",
    "fail": "DRIFT",
    "undefined": "UNDEFINED",
    "error": "ERROR",
    "not_run": "NOT RUN",
}

_HOW = {
    "name": "same true name",
    "mangled": "same mangled name",
    "mapped": "a map entry",
    "fused": "the fusion file",
}

_NARROWEST = 80


def failure_text(
    records: Sequence[Entry],
    *,
    operators: int,
    width: int = 80,
    rerun: str | None = None,
    left_root: str = "",
    right_root: str = "",
) -> str:
    """Return the text of one test item: its failing tensors in full, the others on a line each.

    Parameters
    ----------
    records : sequence of mapping
        The item's records, as `reporting.records.to_json` makes them.
    operators : int
        Number of left operators, for "op 5 of 14".
    width : int
        Columns to fill; less than 80 counts as 80.
    rerun : str, optional
        The shell command that runs just this item.
    left_root, right_root : str
        The two dumps as the user named them; they are put before the file names.

    Returns
    -------
    str
        Plain text without colour or a line break at its end. Only a command may hold a line longer than `width`: a
        word of it is never broken.
    """
    width = max(width, _NARROWEST)
    lines: list[str] = []
    for record in records:
        if record["verdict"] in FAILING:
            lines += ["", *_block(record, operators, width, (left_root, right_root))]
    others = [one_line(record) for record in records if record["verdict"] not in FAILING]
    if others:
        lines.append("")
        lines += [line for text in others for line in _hanging(text, width)]
    if rerun:
        lines += ["", "re-run just this:", *(f"  {line}" for line in command(rerun, width=width - 2))]
    return "\n".join(lines[1:])


def record_text(record: Entry, *, operators: int, width: int = 80, left_root: str = "", right_root: str = "") -> str:
    """Return one record in full, whatever its verdict; parameters as of `failure_text`."""
    return "\n".join(_block(record, operators, max(width, _NARROWEST), (left_root, right_root)))


def one_line(record: Entry) -> str:
    """Return one record as one line, for ``-q``, ``--tb=line`` and JUnit.

    Examples
    --------
    ``DRIFT conv2:output:0: cosine_similarity 0.39 is below 0.999 (profile default (float32)); max abs 1.37 at [0, 3]``
    """
    verdict, address = record["verdict"], one_line_text(record["left"]["address"])
    told = [finding for finding in record["findings"] if finding["outcome"] == verdict]
    parts = [one_line_text(told[0]["sentence"])] if told else []
    if len(told) > 1:
        parts.append(f"and {len(told) - 1} more")
    if not told and (record["elements"] is not None or "statistics" in record):
        parts.append("equal" if record["equal"] else "every limit met")
    if "statistics" in record:
        parts.append("by statistics only")
    parts += _largest_error(record, told)
    text = f"{_WORDS[verdict]} {address}{_where_in_run(record)}{_short_line(record)}"
    return f"{text}: {'; '.join(parts)}" if parts else text


def _where_in_run(record: Entry) -> str:
    """The coordinates that a line of its own needs: those beyond the first of everything."""
    later = [f"{name} {record[name]}" for name in ("rank", "graph", "iteration", "occurrence") if record[name]]
    return f" ({', '.join(later)})" if later else ""


def _short_line(record: Entry) -> str:
    """The line of the program, by the bare name of its file."""
    source = record.get("source")
    return f" [{one_line_text(source['file'].rpartition('/')[2])}:{source['line']}]" if source else ""


def _largest_error(record: Entry, told: Sequence[Entry]) -> list[str]:
    """The greatest difference and its place, unless a sentence has told it."""
    value = record["metrics"].get("max_absolute_error")
    if value is None or record["equal"] or any(finding["metric"] == "max_absolute_error" for finding in told[:1]):
        return []
    place = record["where"].get("max_absolute_error")
    at = f" at {index_text(place)}" if place else ""
    return [f"max abs {number(NONFINITE[value] if isinstance(value, str) else value)}{at}"]


def _block(record: Entry, operators: int, width: int, roots: tuple[str, str]) -> Iterator[str]:
    """One failing tensor in full."""
    yield from _heading(record, operators, width)
    for side, root in zip(("left", "right"), roots, strict=True):
        yield from _side(side, record[side], root, width)
    beside = statistics_table(record, width)
    if beside:
        yield from ("", *beside)
    if record["elements"] is not None or beside:
        yield ""
        yield from evidence.metrics_table(record, width)
    yield from evidence.other_numbers(record, width)
    worst = list(evidence.worst_elements(record, width))
    if worst:
        yield from ("", *worst)
    told = [*diagnosis_lines(record, width), *argument_lines(record, width)]
    told += [*evidence.sentences(record, width), *evidence.would_pass(record, width)]
    if told:
        yield from ("", *told)


def _heading(record: Entry, operators: int, width: int) -> Iterator[str]:
    """Verdict and address, place in the run, and why these two met."""
    word = _WORDS[record["verdict"]]
    indent = " " * (len(word) + 2)
    first, *rest = pieces(one_line_text(record["left"]["address"]), width - len(indent))
    yield f"{word}  {first}"
    for parts in ((_place(record, operators), _at(record)), (_paired(record), _transform(record))):
        text = "; ".join(part for part in parts if part)
        rest += filled(one_line_text(text), width - len(indent)) if text else []
    rest += [part for text in _made_by(record) for part in pieces(one_line_text(text), width - len(indent))]
    rest += filled(role_line(record), width - len(indent)) if "role" in record else []
    yield from (indent + line for line in rest)


def _place(record: Entry, operators: int) -> str:
    """Where in the run the operator is; two loose files are in no run."""
    return "" if record["how"] == "file" else f"op {record['order'] + 1} of {operators} in execution order"


def _at(record: Entry) -> str:
    """Which run of the operator."""
    return ", ".join(f"{name} {value}" for name, value in _shown(record))


def _paired(record: Entry) -> str:
    """Why these two met; that two loose files were given together needs no words."""
    by = record["by"] or _HOW.get(record["how"], record["how"])
    return f"paired: {by}" if record["how"] != "file" else ""


def _made_by(record: Entry) -> Iterator[str]:
    """The line of the user's program, to go to and to read; the right side's too where it has one of its own."""
    source, other = record.get("source"), record["right"].get("source")
    if source:
        yield from _line("made by", source)
    if other and other != source:
        yield from _line("right made by", other)


def _line(label: str, source: Entry) -> Iterator[str]:
    """Place and code of a line of a program."""
    yield f"{label} {source['file']}:{source['line']}"
    if source["text"]:
        yield f"  {source['text']}"


def _shown(record: Entry) -> Iterator[tuple[str, Any]]:
    """The coordinates to tell: those the left side has, and where the right side's differ, those too."""
    for name in COORDINATES:
        value, other = record[name], record["right"]["at"].get(name)
        # The first occurrence is the ordinary case and would only be noise.
        if value is not None and (name != "occurrence" or value or other):
            yield name, f"{value} (right {other})" if other is not None and other != value else value


def _transform(record: Entry) -> str:
    """How the right side was brought to the left; an axis order concerns 4-D tensors alone."""
    transform, shape = record["transform"], record["right"]["shape"]
    sides = ("left", "right") if shape is None or len(shape) == 4 else ()
    parts = [f"{side} read as {transform[f'{side}_format']}" for side in sides if f"{side}_format" in transform]
    if "transpose" in transform:
        parts.append(f"right side transposed {index_text(transform['transpose'])}")
    if transform.get("reshape"):
        parts.append("right side reshaped")
    return ", ".join(parts)


def _side(label: str, side: Entry, root: str, width: int) -> Iterator[str]:
    """One side: its file, whole, and what is in it."""
    start, column = f"  {label:<5}  ", 9
    path = one_line_text(_path(root, side["file"])) + (f", line {side['row']}" if "row" in side else "")
    described = [side["dtype"] or "dtype unknown,"]
    described += [side["memory_format"]] if side["memory_format"] else []
    described.append("shape unknown: not opened" if side["shape"] is None else _shape(side["shape"]))
    if "logical_shape" in side:
        described.append(f"-> {_shape(side['logical_shape'])}")
    lines = [*pieces(path, width - column), *filled(one_line_text(" ".join(described)), width - column)]
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
