"""Commands for TensorFlow's debugger that save every tensor of its list under a name of the grammar.

References
----------
Ascend "Accuracy Comparison Tool", "Preparing .npy Data of a TensorFlow Model". TensorFlow 1.x, command ``lt``
(list_tensors) of tfdbg: ``[time] size op_type node:slot``; first releases printed ``[time ms] node:slot``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_msdump.errors import ConfigError
from pytest_msdump.record.writer import FileNames, safe_name

_LINE = re.compile(r"\s*\[\s*([0-9.]+)(?: ms)?\]\s+(?:\S+\s+\S+\s+)?([^\s:]+):([0-9]{1,9})\s*")
_COUNT = re.compile(r"(?<![0-9])([0-9]{1,18}) dumped tensor\(s\)")
_LONGEST_NAME_BYTES = 255


@dataclass(frozen=True, slots=True)
class Listed:
    """One dumped tensor of a list: when, of what node and slot, and which of several dumps of the same tensor."""

    milliseconds: float
    node: str
    slot: int
    number: int = 0


def read_listing(text: str, *, source: str) -> list[Listed]:
    """Read the tensors that ``lt > FILE`` saved, by time; ConfigError, naming `source`, where there are too few."""
    found = [match for match in map(_LINE.fullmatch, text.splitlines()) if match]
    count = _COUNT.search(text)
    if not found or (count and int(count[1]) != len(found)):
        claim = f" of the {count[1]} that its first line announces" if count and found else ""
        raise ConfigError(
            f"{source}: {len(found)} tensors are listed{claim}; save the whole list in tfdbg with: lt > tensor_name"
        )
    listed = sorted((_time(match[1], source), match[2], int(match[3])) for match in found)
    # The list may have been sorted by name or size.
    seen: Counter[tuple[str, int]] = Counter()
    tensors = []
    for time, node, slot in listed:
        tensors.append(Listed(time, node, slot, seen[node, slot]))
        seen[node, slot] += 1
    return tensors


def _time(text: str, source: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{source}: '[{text}]' is not a time in ms; save the list with: lt > tensor_name") from None


def print_commands(listed: list[Listed], *, first: int | None = None, folder: str = "") -> Iterator[str]:
    """Yield a ``pt`` command for each tensor: ``/`` of its name becomes ``_``, ``:`` a dot, and times rise.

    `first` is the time of the first file in µs since 1970, 16 digits, by default now; `folder` where the debugger shall
    write to. ConfigError for a file name longer than file systems allow.
    """
    names = FileNames(first)
    prefix = f"{folder.rstrip('/') or '/'}/".replace("//", "/") if folder else ""
    for tensor in listed:
        name = names.name(tensor.node, "output", tensor.slot)
        if len(name) > _LONGEST_NAME_BYTES:
            raise ConfigError(
                f"{safe_name(tensor.node)[:60]}…: its file name would have {len(name)} bytes, and file systems take "
                f"{_LONGEST_NAME_BYTES}; take this line out of the list, or shorten the name of its scope"
            )
        yield f"pt {tensor.node}:{tensor.slot} -n {tensor.number} -w {prefix}{name}"
