"""Readers of option values. Each refusal begins with `where`, the option as it is written there."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from importlib.metadata import entry_points

from pytest_msdump.core.errors import ConfigError, UnknownNameError
from pytest_msdump.core.settings.options import REPORT_KINDS, USUAL_DETAILS

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_SPEC_PART = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)

# The set of a coordinate is in memory; no run has more iterations, and a typing mistake must not fill it.
_MOST_SPEC_VALUES = 1_000_000

# Each is a thread with a pair open; more than any machine has use for.
_MOST_JOBS = 256


def parse_spec(text: str, *, where: str = "SPEC") -> frozenset[int] | None:
    """Read iterations, ranks or graphs as MindSpore writes them: ``"all"`` (``None``), or numbers and ranges.

    Both ends of a range are included. MindSpore itself lets a bad part match nothing, in silence; here it is refused.

    >>> sorted(parse_spec("0|2-3"))
    [0, 2, 3]
    """
    if text == "all":
        return None
    found: set[int] = set()
    for part in text.split("|"):
        matched = _SPEC_PART.fullmatch(part)
        if matched is None:
            raise ConfigError(f"{where}: {text!r}: {part!r} is neither a number nor a range; write e.g. 0|2-3, or all")
        first, last = int(matched[1]), int(matched[2] or matched[1])
        if last < first:
            raise ConfigError(f"{where}: {text!r}: the range {part} runs backwards; write {last}-{first}")
        if len(found) + last - first >= _MOST_SPEC_VALUES:
            raise ConfigError(f"{where}: {text!r} names more than {_MOST_SPEC_VALUES:,} values; write all, or fewer")
        found.update(range(first, last + 1))
    return frozenset(found)


def parse_coverage(value: str | float, *, flag: bool, where: str | None = None) -> float:
    """Read the least coverage, per cent on the `flag` (or ini key) and a share in a suite file; return the share.

    ``"90%"`` means the same in either. A number that seems to be in the other unit is refused.

    >>> parse_coverage("90", flag=True), parse_coverage(0.9, flag=False), parse_coverage("90%", flag=False)
    (0.9, 0.9, 0.9)
    """
    where = where or ("--msdump-min-coverage" if flag else "min_coverage")
    if isinstance(value, str) and value.strip().endswith("%"):
        return _share(_coverage_number(value.strip()[:-1].rstrip(), value, where), value, where)
    if isinstance(value, str) and not flag:
        raise ConfigError(f'{where}: {value!r} is not a share; write 0.9, or "90%"')
    number = _coverage_number(value.strip() if isinstance(value, str) else value, value, where)
    if flag and 0 < number < 1:
        raise ConfigError(f"{where}: {value} is less than 1 per cent; write {number * 100:g} or {number:g}%")
    if not flag and number > 1:
        raise ConfigError(f'{where}: {number:g} is more than 1; write {number / 100:g} or "{number:g}%"')
    return _share(number if flag else number * 100, value, where)


def _coverage_number(number: str | float, value: object, where: str) -> float:
    if not isinstance(number, str):
        number = repr(float(number))
    return finite(number, f"{where}: {value!r} is not a number of per cent, e.g. 90")


def _share(per_cent: float, value: object, where: str) -> float:
    if not 0 <= per_cent <= 100:
        raise ConfigError(f"{where}: {value} is not within 0 to 100 per cent")
    return per_cent / 100


def parse_report(text: str | Iterable[str], *, where: str = "--msdump-report") -> tuple[str, ...]:
    """Read kinds of reports, separated by commas or one by one; return each once, in the order given."""
    parts = text.split(",") if isinstance(text, str) else list(text)
    kinds = [part.strip() for part in parts if part.strip()]
    if not kinds:
        raise ConfigError(f"{where}: names no report; known: {', '.join(REPORT_KINDS)}")
    for kind in kinds:
        # Looked up only for a kind that is not ours.
        if kind not in REPORT_KINDS and kind not in entry_points(group="pytest_msdump.report").names:
            raise UnknownNameError(f"{where}: unknown report {kind!r}; known: {', '.join(REPORT_KINDS)}")
    return tuple(dict.fromkeys(kinds))


def parse_jobs(value: str | int, *, where: str = "--msdump-jobs") -> int:
    """Read a number of workers."""
    text = str(value).strip()
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= _MOST_JOBS:
        raise ConfigError(f"{where}: {value!r} is not a number of workers; write a number from 1 to {_MOST_JOBS}")
    return int(text)


def parse_count(value: str | int | bool, *, where: str = "--msdump-detail") -> int:
    """Read how many failing tensors to write in detail: a number, true for the usual one, or false for none.

    >>> parse_count("20"), parse_count(True), parse_count("false")
    (20, 5, 0)
    """
    named = {"true": USUAL_DETAILS, "false": 0}
    text = str(value).strip().lower()
    if text in named:
        return named[text]
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise ConfigError(
            f"{where}: {value!r} is not a number of failing tensors; before a path write {where}={USUAL_DETAILS}"
        )
    return int(text)


def finite(text: str, refusal: str) -> float:
    """Read a plain decimal number; refuse what only Python takes for one (`1_0`, `nan`, digits of other scripts)."""
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
        raise ConfigError(refusal)
    return number
