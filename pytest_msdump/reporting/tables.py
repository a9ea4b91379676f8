"""Plain text in a given width: tables, labelled lines, long names and commands. No colour."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["command", "filled", "labelled", "pieces", "table"]

_GAP = "  "

# Space that stands in no pair of brackets.
_SPACE = re.compile(r"\s+(?![^\[\]]*\])")
_NARROWEST_CELL = 16


def table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int,
    right: Iterable[int] = (),
    flexible: int | None = None,
    indent: int = 2,
) -> list[str]:
    """Lay out a table.

    A text in the flexible column that is to be wrapped and repeats the row above is written ``(same)``.

    Parameters
    ----------
    titles, rows : sequences of text
        All of one length.
    width : int
        Columns of the terminal. A table without a `flexible` column may come out wider.
    right : iterable of int
        Columns set flush right.
    flexible : int, optional
        The column whose cells are wrapped when the whole does not fit.
    """
    widths = [max(len(row[column]) for row in (titles, *rows)) for column in range(len(titles))]
    if flexible is not None:
        spare = width - indent - sum(widths) - len(_GAP) * (len(widths) - 1)
        if spare < 0:
            rows = list(_without_repeats(rows, flexible))
            widths[flexible] = max(min(widths[flexible], _NARROWEST_CELL), widths[flexible] + spare)
    flush_right = frozenset(right)
    lines: list[str] = []
    for row in (titles, *rows):
        cells = [filled(cell, widths[column]) if column == flexible else [cell] for column, cell in enumerate(row)]
        lines += [" " * indent + line for line in _row(cells, widths, flush_right)]
    return lines


def _row(cells: Sequence[list[str]], widths: Sequence[int], flush_right: frozenset[int]) -> Iterator[str]:
    """One row of a table, as many lines as its longest cell."""
    for number in range(max(len(cell) for cell in cells)):
        texts = [cell[number] if number < len(cell) else "" for cell in cells]
        placed = [
            text.rjust(widths[column]) if column in flush_right else text.ljust(widths[column])
            for column, text in enumerate(texts)
        ]
        yield _GAP.join(placed).rstrip()


def _without_repeats(rows: Sequence[Sequence[str]], column: int) -> Iterator[Sequence[str]]:
    """Replace a cell that says what the one above it says."""
    above = None
    for row in rows:
        same = row[column] == above and len(row[column]) > len("(same)")
        yield [*row[:column], "(same)", *row[column + 1 :]] if same else row
        above = row[column]


def labelled(label: str, text: str, *, width: int, column: int = 12, indent: int = 2) -> list[str]:
    """Write ``label  text``, with `text` wrapped under itself."""
    start = " " * indent + label.ljust(column)
    lines = filled(text, width - len(start))
    return [start + lines[0], *(" " * len(start) + line for line in lines[1:])]


def filled(text: str, width: int) -> list[str]:
    """Break `text` at spaces into lines of at most `width`, longer words as names; an index like [0, 3] stays whole."""
    lines = [""]
    for word in (part for whole in _SPACE.split(text.strip()) for part in pieces(whole, width)):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


def pieces(name: str, width: int) -> list[str]:
    """Break a name into parts of at most `width`, after a separator where there is one: the whole stays readable.

    Examples
    --------
    >>> pieces("rank_0/Net/0/0/BiasAdd.Default_conv2-BiasAdd-op0.0.npy", 34)
    ['rank_0/Net/0/0/', 'BiasAdd.Default_conv2-BiasAdd-op0.', '0.npy']
    """
    width = max(width, _NARROWEST_CELL)
    directory, slash, last = name.rpartition("/")
    if slash and len(name) > width:
        return [*_cut(directory + slash, width), *_cut(last, width)]
    return _cut(name, width)


def _cut(name: str, width: int) -> list[str]:
    """Cut what is too long, at the last separator of a line's second half."""
    parts: list[str] = []
    while len(name) > width:
        end = _break_at(name[:width])
        parts.append(name[:end])
        name = name[end:]
    return [*parts, name] if name or not parts else parts


def _break_at(head: str) -> int:
    """Where to break: after a strong separator, else a weak one, else at the end."""
    for separators in ("/.", "_-:,="):
        end = 1 + max(head.rfind(separator) for separator in separators)
        if end > len(head) // 2:
            return end
    return len(head)


def command(text: str, *, width: int) -> list[str]:
    r"""Break a shell command into lines that end in ``\``, so that it can be pasted whole."""
    try:
        words = [shlex.quote(word) for word in shlex.split(text)]
    except ValueError:
        return [text]
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) + len("  \\") > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]
