"""``msdump init --update``: the entries that init made are made anew; what a person wrote stays as it is."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.report.coverage import map_entry_lines
from pytest_msdump.core.text import beginnings

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
