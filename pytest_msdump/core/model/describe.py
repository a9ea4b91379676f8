"""Facts of one dump as text: counts, sizes, coordinates, shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.model.comparison import Scalar
from pytest_msdump.core.model.tensor import COORDINATES, Coordinates, SourceFrame, TensorSpec
from pytest_msdump.core.text import exponent, plain
from pytest_msdump.core.text import number as number_text

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


# Numbers and indexes as text: plain ASCII, one line.


def number(value: Scalar, digits: int = 6) -> str:
    """Write a number with at most `digits` significant digits, three where it takes an exponent; integers whole.

    >>> number(0.390510547), number(0.00023), number(9007199254740993), number(float("-inf"))
    ('0.390511', '2.3e-04', '9007199254740993', '-Inf')

    A number that is not quite 1, such as a cosine, does not look like 1.

    >>> number(0.9999999974), number(-1 + 3e-12), number(1.0)
    ('1 - 2.6e-09', '-1 + 3e-12', '1')
    """
    if isinstance(value, complex | int):
        return plain(value, digits)
    text = number_text(value, digits)
    if text not in ("1", "-1") or abs(value) == 1:
        return text
    distance = value - float(text)
    return f"{text} {'-' if distance < 0 else '+'} {exponent(abs(distance), 2)}"


def beside(value: float | int, limit: float | int) -> tuple[str, str]:
    """Write a value and its limit so that the texts differ where the numbers do; the limit as a user types it.

    >>> beside(0.9989999999, 0.999), beside(0.5, 1.0)
    (('0.9989999999', '0.999'), ('0.5', '1'))

    How far from 1 a value is does not matter to a limit that is somewhere else.

    >>> beside(0.9999999974, 0.999), beside(0.9999999974, 0.05)
    (('1 - 2.6e-09', '0.999'), ('1', '0.05'))
    """
    limit_text = repr(limit).removesuffix(".0")
    short = plain(value)
    is_elsewhere = short in ("1", "-1") and abs(limit - float(short)) > 0.5
    texts = [short if is_elsewhere else number(value), *(plain(value, digits) for digits in range(7, 18))]
    if value != limit:
        texts = [text for text in texts if text != limit_text] or texts[-1:]
    return texts[0], limit_text


def distinct_texts(left: Scalar, right: Scalar) -> tuple[str, str]:
    """Write two elements with the fewest digits that differ, six at least."""
    for digits in range(6, 18):
        texts = plain(left, digits), plain(right, digits)
        if texts[0] != texts[1]:
            return texts
    return plain(left, 17), plain(right, 17)


def index_text(index: Sequence[int]) -> str:
    """Write an index as it is typed; a 0-d tensor's only element has the index ``[]``."""
    return f"[{', '.join(map(str, index))}]"
