"""Numbers and indexes as text: plain ASCII, one line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

from pytest_msdump.core.model.comparison import Scalar

_LONGEST_INTEGER_DIGITS = 24


def number(value: Scalar, digits: int = 6) -> str:
    """Write a number with at most `digits` significant digits, three where it takes an exponent; integers whole.

    >>> number(0.390510547), number(0.00023), number(9007199254740993), number(float("-inf"))
    ('0.390511', '2.3e-04', '9007199254740993', '-Inf')

    A number that is not quite 1, such as a cosine, does not look like 1.

    >>> number(0.9999999974), number(-1 + 3e-12), number(1.0)
    ('1 - 2.6e-09', '-1 + 3e-12', '1')
    """
    if isinstance(value, complex):
        return _complex_text(value, digits)
    if isinstance(value, int):
        return _whole(value)
    if not math.isfinite(value) or value == 0 or 1e-3 <= abs(value) < 1e6:
        return _not_quite_one(value, digits)
    return _exponent(value, 3)


def plain(value: Scalar, digits: int = 6) -> str:
    """Write a number with `digits` significant digits."""
    if isinstance(value, complex):
        return _complex_text(value, digits)
    if isinstance(value, int):
        return _whole(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return f"{value:.{digits}g}"


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


def _not_quite_one(value: float, digits: int) -> str:
    """Write a number near 1 as its distance from 1."""
    text = plain(value, digits)
    if text not in ("1", "-1") or abs(value) == 1:
        return text
    distance = value - float(text)
    return f"{text} {'-' if distance < 0 else '+'} {_exponent(abs(distance), 2)}"


def _whole(value: int) -> str:
    """Write an integer whole, unless it is too long for a line."""
    digits = str(value) if value.bit_length() < 80 else ""
    if 0 < len(digits) <= _LONGEST_INTEGER_DIGITS:
        return digits
    return f"{Decimal(value):.5e}"


def _exponent(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{exponent}"


def _complex_text(value: complex, digits: int) -> str:
    imaginary = plain(value.imag, digits)
    sign = "" if imaginary.startswith("-") else "+"
    return f"{plain(value.real, digits)}{sign}{imaginary}j"
