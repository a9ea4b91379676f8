"""Plain text in a given width: tables, labelled lines, long names and commands. No colour.

A Chinese character takes two columns of a terminal; widths are columns, never numbers of characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from unicodedata import combining, east_asian_width

from pytest_msdump.core.escape import shell_word
from pytest_msdump.core.facts.metrics import STATISTICS
from pytest_msdump.core.model.describe import number
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.tensor import Statistic
from pytest_msdump.core.text import ENGLISH, Phrases, plain

_GAP = "  "

# Space that stands in no pair of brackets.
_SPACE = re.compile(r"\s+(?![^\[\]]*\])")
_NARROWEST_CELL = 16
_CLOSING = frozenset("，。、；：！？）》」』】”’)];:,.")
_OPENING = frozenset("（《「『【“‘([")


def table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int,
    right: Iterable[int] = (),
    flexible: int | None = None,
    indent: int = 2,
    same: str = "(same)",
) -> list[str]:
    """Lay out a table: each row as long as the titles, the columns in `right` flush right."""
    widths = [max(columns(row[column]) for row in (titles, *rows)) for column in range(len(titles))]
    if flexible is not None:
        spare = width - indent - sum(widths) - len(_GAP) * (len(widths) - 1)
        if spare < 0:
            rows = list(_without_repeats(rows, flexible, same))
            widths[flexible] = max(min(widths[flexible], _NARROWEST_CELL), widths[flexible] + spare)
    flush_right = frozenset(right)
    lines: list[str] = []
    for row in (titles, *rows):
        cells = [filled(cell, widths[column]) if column == flexible else [cell] for column, cell in enumerate(row)]
        lines += [" " * indent + line for line in _row(cells, widths, flush_right)]
    return lines


def _row(cells: Sequence[list[str]], widths: Sequence[int], flush_right: frozenset[int]) -> Iterator[str]:
    """Yield one row of a table, as many lines as its longest cell."""
    for line in range(max(len(cell) for cell in cells)):
        texts = [cell[line] if line < len(cell) else "" for cell in cells]
        placed = [_placed(text, widths[column], column in flush_right) for column, text in enumerate(texts)]
        yield _GAP.join(placed).rstrip()


def _placed(text: str, width: int, flush_right: bool) -> str:
    spaces = " " * (width - columns(text))
    return spaces + text if flush_right else text + spaces


def _without_repeats(rows: Sequence[Sequence[str]], column: int, same: str) -> Iterator[Sequence[str]]:
    above = None
    for row in rows:
        is_repeated = row[column] == above and columns(row[column]) > columns(same)
        yield [*row[:column], same, *row[column + 1 :]] if is_repeated else row
        above = row[column]


def labelled(label: str, text: str, *, width: int, column: int = 12) -> list[str]:
    """Write ``label  text``, with `text` wrapped under itself."""
    start = "  " + _placed(label, column, flush_right=False)
    indent = columns(start)
    lines = filled(text, width - indent)
    return [start + lines[0], *(" " * indent + line for line in lines[1:])]


def titled(title: str, text: str, column: int) -> str:
    """Write one line whose `text` begins at a column, however wide the characters of its title are."""
    return title + " " * max(1, column - columns(title)) + text


def hanging(text: str, width: int, *, indent: int = 0) -> list[str]:
    """Break `text` into indented lines; all but the first are indented by two more."""
    first, *others = filled(text, width - indent - 2)
    return [" " * indent + first, *(" " * (indent + 2) + line for line in others)]


def filled(text: str, width: int) -> list[str]:
    """Break `text` into lines of at most `width`: at spaces, longer words as names; an index like [0, 3] stays whole.

    Chinese has no spaces between words: it is broken between any two characters, but no line begins with a comma.

    >>> filled("右侧 12 个张量已配对 3 个，其余未配对", 16)
    ['右侧 12 个张量已', '配对 3 个，其余', '未配对']
    """
    is_plain = text.isascii() and text.isprintable() and text.strip(" ") == text != "" and "  " not in text
    if is_plain and len(text) <= width:
        return [text]
    lines = [""]
    for word in _SPACE.split(text.strip()):
        gap = " " if lines[-1] else ""
        for part in _parts(word, width):
            if lines[-1] and columns(lines[-1]) + len(gap) + columns(part) > width:
                lines.append("")
                gap = ""
            lines[-1] += gap + part
            gap = ""
    return lines


def columns(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(char) else 1 + _is_wide(char) for char in text)


def _is_wide(char: str) -> bool:
    return east_asian_width(char) in ("W", "F")


def _parts(word: str, width: int) -> Iterator[str]:
    """Yield the parts of a word that stay together."""
    if word.isascii():
        yield from pieces(word, width)
        return
    for unit in _units(word):
        yield from pieces(unit, width)


def _units(word: str) -> Iterator[str]:
    """Yield each wide character, and each run of others, with the punctuation that stays beside it."""
    unit = ""
    for char in word:
        last = unit[-1:]
        is_bound = char in _CLOSING or last in _OPENING
        if unit and not is_bound and (_is_wide(char) or _is_wide(last)):
            yield unit
            unit = ""
        unit += char
    if unit:
        yield unit


def pieces(name: str, width: int) -> list[str]:
    """Break a name into parts of at most `width`, after a separator where there is one: the whole stays readable.

    >>> pieces("rank_0/Net/0/0/BiasAdd.Default_conv2-BiasAdd-op0.0.npy", 34)
    ['rank_0/Net/0/0/', 'BiasAdd.Default_conv2-BiasAdd-op0.', '0.npy']
    """
    width = max(width, _NARROWEST_CELL)
    directory, slash, last = name.rpartition("/")
    if slash and columns(name) > width:
        return [*_cut(directory + slash, width), *_cut(last, width)]
    return _cut(name, width)


def _cut(name: str, width: int) -> list[str]:
    """Cut what is too long, at the last separator of a line's second half."""
    parts: list[str] = []
    while columns(name) > width:
        end = _break_at(name[: _fitting(name, width)])
        parts.append(name[:end])
        name = name[end:]
    return [*parts, name] if name or not parts else parts


def _fitting(name: str, width: int) -> int:
    if name.isascii():
        return width
    return max(count for count in range(1, width + 1) if columns(name[:count]) <= width)


def _break_at(head: str) -> int:
    """Return where to break: after a separator, the stronger ones first, else at the end."""
    for separators in ("/.", "=", "_-:,"):
        end = 1 + max(head.rfind(separator) for separator in separators)
        if end > len(head) // 2:
            return end
    return len(head)


def command(words: Sequence[str], *, width: int, label: str) -> list[str]:
    r"""Break a shell command, behind its label, into lines that end in ``\``, so that it can be pasted whole."""
    lines, width = [""], width - columns(label) - 1
    for word in map(shell_word, words):
        if lines[-1] and columns(lines[-1]) + columns(word) + len("  \\") > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    first, *others = [*(f"{line} \\" for line in lines[:-1]), lines[-1]]
    return [f"{label} {first}", *(f"  {line}" for line in others)]


_DIGEST_SHOWN = 12


def statistics_table(record: Record, width: int, say: Phrases = ENGLISH) -> list[str]:
    """Return the statistics that both sides have, side by side."""
    statistics = record.statistics
    if statistics is None or not statistics.compared:
        return []
    rows = [
        (
            STATISTICS[name].columns[0].removesuffix(" value"),
            *_texts(statistics.left.values[name], statistics.right.values[name], say),
        )
        for name in statistics.compared
        if name in STATISTICS
    ]
    return table((say("statistic"), say("left"), say("right"), "|l - r|"), rows, width=width, right=(1, 2, 3))


def _texts(left: Statistic, right: Statistic, say: Phrases) -> tuple[str, str, str]:
    """Return two values and their distance; of digests the beginning."""
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        same = say("equal" if left == right else "differ")
        return str(left)[:_DIGEST_SHOWN], str(right)[:_DIGEST_SHOWN], same
    apart = abs(left - right)
    return plain(left), plain(right), "-" if apart != apart else number(apart, 3)
