"""Facts of one dump as text: counts, sizes, coordinates, shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.model.tensor import COORDINATES, Coordinates, SourceFrame, TensorSpec

_UNITS = ("KiB", "MiB", "GiB", "TiB")
_SHOWN = {"rank": "rank {}", "net": "net {}", "graph": "graph {}", "iteration": "iteration {}", "occurrence": "run {}"}


def counted(count: int, what: str) -> str:
    """Write a count and its noun.

    >>> counted(1, "file"), counted(2, "file")
    ('1 file', '2 files')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Write the first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def bytes_text(size: int) -> str:
    """Write a size with the largest unit that leaves a number of at least 1.

    >>> bytes_text(1023), bytes_text(27776)
    ('1023 B', '27.1 KiB')
    """
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size / 1024**power:.1f} {_UNITS[power - 1]}"


def where_text(at: Coordinates) -> str:
    """Write coordinates as ``rank 0, net Lenet, …``, without the first occurrence."""
    return ", ".join(
        _SHOWN[name].format(terminal_text(str(value)))
        for name in COORDINATES
        if (value := getattr(at, name)) is not None and (name, value) != ("occurrence", 0)
    )


def shape_text(shape: Sequence[int] | None) -> str:
    """Write a shape as numpy does; a negative size is unknown and written as ``?``."""
    if shape is None:
        return "shape unknown"
    sizes = ["?" if size < 0 else str(size) for size in shape]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"


def spec_text(spec: TensorSpec | None) -> str:
    """Write type, shape and memory format of a tensor."""
    if spec is None:
        return "no tensor"
    parts = (spec.dtype or "type unknown", shape_text(spec.shape), spec.memory_format or "")
    return " ".join(part for part in parts if part)


def wrapped(text: str, width: int, *, indent: int) -> Iterator[str]:
    """Break a sentence into lines, at least one; words are never broken, so that names and paths can be copied."""
    margin = " " * indent
    lines = wrap(
        terminal_text(text),
        width,
        initial_indent=margin,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from lines or [margin]


def frame_lines(frame: SourceFrame, width: int, *, indent: int) -> Iterator[str]:
    """Write a place in the program and its code, on one line where that fits."""
    place, code = f"{' ' * indent}{terminal_text(frame.place)}", terminal_text(frame.text)
    if not code or len(place) + 2 + len(code) <= width:
        yield f"{place}  {code}".rstrip()
        return
    yield place
    yield f"{' ' * (indent + 4)}{code}"
