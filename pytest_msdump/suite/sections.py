"""What may stand in ``[msdump]`` and in the tables below it, and what each value must be."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.facts.metrics import METRICS, SHORT_FORMS
from pytest_msdump.limits.policy import KnownDrift, Rule, metric_name, profile_names
from pytest_msdump.matching.addresses import MapEntry
from pytest_msdump.matching.coordinates import Align, parse_align
from pytest_msdump.settings import (
    OPTIONS,
    parse_count,
    parse_coverage,
    parse_jobs,
    parse_report,
    parse_spec,
)
from pytest_msdump.settings.values import finite
from pytest_msdump.storage.remote import is_url
from pytest_msdump.suite.keys import (
    Reader,
    choice,
    date,
    flag,
    number,
    path_text,
    permutation,
    read_table,
    require,
    shown,
    spec_text,
    text,
    texts,
    whole,
)

__all__ = ["FileName", "PlacedPath", "SideText", "parse_threshold", "read_file", "read_options"]

_FORMATS = ("NCHW", "NHWC", "HWCN", "CHWN")


class PlacedPath(NamedTuple):
    """A path as written, with what a relative one starts from, and who said it."""

    text: str
    base: Path
    where: str

    @property
    def path(self) -> Path:
        """The path itself."""
        return self.base / self.text


class SideText(NamedTuple):
    """One side as written: a URL, too. ``@env`` is looked up only when nothing overrides it."""

    path: PlacedPath
    choice: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class FileName:
    """How a file's tables are called: `file` in messages (path), `short` in labels, `title` the tables' own prefix."""

    file: str
    short: str
    title: str

    def place(self, table: str = "", number: int | None = None) -> str:
        """Return what a message about a table begins with."""
        return f"{self.file}: {self._table(table, number)}"

    def label(self, table: str = "", number: int | None = None) -> str:
        """Return what a finding calls a table."""
        return f"{self.short} {self._table(table, number)}"

    def _table(self, table: str, number: int | None) -> str:
        full = f"{self.title}.{table}" if table else self.title
        return f"[{full}]" if number is None else f"[[{full}]] #{number}"


def read_options(values: Mapping[str, Any], spelled: Mapping[str, str], base: Path) -> dict[str, Any]:
    """Read what was given by flags or ini keys.

    Parameters
    ----------
    values : Mapping
        Option name → text, texts, or ``None`` for what was not given.
    spelled : Mapping
        Option name → how it is written there, for messages.
    base : Path
        What relative paths start from.
    """
    readers = _shared(base) | {
        "config": path_text,
        "threshold": _thresholds,
        "align": _typed_align,
        "min_coverage": _coverage_per_cent,
    }
    unknown = next((name for name in values if name not in readers), None)
    if unknown is not None:
        raise UnknownNameError(f"unknown option {unknown!r}; {nearest(unknown, readers)}")
    return {name: readers[name](value, spelled[name]) for name, value in values.items() if value is not None}


def read_file(table: object, name: FileName, base: Path) -> dict[str, Any]:
    """Read ``[msdump]`` with all that is below it; parameters as of `read_options`."""
    return read_table(table, _file_keys(name, base), name.place())


def _shared(base: Path) -> dict[str, Reader]:
    """Return the readers of what can be said in a suite file and on the command line alike."""

    def side(value: object, where: str) -> SideText:
        return _side(value, where, base)

    def path(value: object, where: str) -> PlacedPath:
        return PlacedPath(_own_path(value, where), base, where)

    by_kind: dict[str, Reader] = {
        "path": path,
        "text": text,
        "texts": texts,
        "number": _number,
        "count": _detail,
        "switch": flag,
    }
    readers = {
        option.name: choice(*option.choices) if option.choices else by_kind[option.kind]
        for option in OPTIONS
        if option.toml
    }
    return readers | {
        "left": side,
        "right": side,
        "profile": _profile,
        "without": _without,
        "iteration": _spec,
        "rank": _spec,
        "graph": _spec,
        "report": _report,
        "jobs": _jobs,
    }


def _file_keys(name: FileName, base: Path) -> dict[str, Reader]:
    """Return the readers of every key of ``[msdump]``."""

    def graph_files(value: object, where: str) -> tuple[Path, ...]:
        if not isinstance(value, list):
            raise ConfigError(f"{where} must be an array of paths, not {shown(value)}")
        return tuple(base / _own_path(one, f"{where}[{place}]") for place, one in enumerate(value))

    return _shared(base) | {
        "min_coverage": _coverage_share,
        "graph_files": graph_files,
        "nan": choice("match", "forbid"),
        "dtype_hint": flag,
        "left_format": choice(*_FORMATS),
        "right_format": choice(*_FORMATS),
        "align": _align,
        "map": _tables(name, "map", _entry),
        "rule": _tables(name, "rule", rule),
        "known_drift": _tables(name, "known_drift", known_drift),
    }


def _tables(name: FileName, title: str, read: Any) -> Reader:
    """Return a reader of a ``[[…]]``, whose tables are told apart by their number, from 1."""

    def read_all(value: object, _where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ConfigError(
                f"{name.place(title)} must be an array of tables, not {shown(value)}; write [[{name.title}.{title}]]"
            )
        return tuple(
            read(table, name.place(title, place), name.label(title, place)) for place, table in enumerate(value, 1)
        )

    return read_all


_ENTRY_KEYS: dict[str, Reader] = {
    "left": text,
    "right": text,
    "reshape": flag,
    "transpose": permutation,
    "rank": whole,
    "net": text,
    "graph": whole,
    "iteration": whole,
}
_SIDE_KEYS: dict[str, Reader] = {
    "path": path_text,
    "net": text,
    "rank": spec_text,
    "graph": spec_text,
    "iteration": spec_text,
}


def _entry(table: object, where: str, label: str) -> MapEntry:
    said = read_table(table, _ENTRY_KEYS, where)
    require(said, ("left", "right"), where)
    return MapEntry(**said, label=label)


def _side(value: object, where: str, base: Path) -> SideText:
    """Read a side: a path, or a table of a path and coordinates."""
    if not isinstance(value, Mapping | str | os.PathLike):
        raise ConfigError(f"{where} must be a path or {{ path = …, rank = … }}, not {shown(value)}")
    if not isinstance(value, Mapping):
        return SideText(PlacedPath(path_text(value, where), base, where), {})
    said = read_table(value, _SIDE_KEYS, where, join=".")
    require(said, ("path",), where)
    return SideText(PlacedPath(said.pop("path"), base, f"{where}.path"), said)


def _own_path(value: object, where: str) -> str:
    """Read a path of this machine."""
    path = path_text(value, where)
    if is_url(path):
        raise ConfigError(f"{where} must be a path of this machine: only the two sides may be URLs")
    return path


def _profile(value: object, where: str) -> str:
    name = text(value, where)
    if name not in profile_names():
        raise UnknownNameError(f"{where}: unknown profile {name!r}; {nearest(name, profile_names())}")
    return name


def _spec(value: object, where: str) -> frozenset[int] | None:
    spec = spec_text(value, where)
    return None if spec is None else parse_spec(spec, where=where)


def _report(value: object, where: str) -> tuple[str, ...]:
    return parse_report(value if isinstance(value, str) else texts(value, where), where=where)


def _number(value: object, where: str) -> float:
    typed = isinstance(value, str)
    return finite(str(value).strip(), f"{where}: {value!r} is not a finite number") if typed else number(value, where)


def _detail(value: object, where: str) -> int:
    return parse_count(value if isinstance(value, str | bool) else whole(value, where), where=where)


def _jobs(value: object, where: str) -> int:
    return parse_jobs(value if isinstance(value, str) else whole(value, where), where=where)


def _coverage_per_cent(value: object, where: str) -> float:
    return parse_coverage(value if isinstance(value, str) else number(value, where), flag=True, where=where)


def _coverage_share(value: object, where: str) -> float:
    return parse_coverage(value if isinstance(value, str) else number(value, where), flag=False, where=where)


def parse_threshold(text: str, *, where: str = "--msdump-threshold") -> tuple[str, float]:
    """Read ``METRIC=VALUE``.

    Parameters
    ----------
    text : str
        As typed; METRIC is an id or a short form.
    where : str
        How the option is spelled there, for the message.

    Returns
    -------
    tuple of (str, float)
        The metric as typed, which findings repeat, and its limit.

    Raises
    ------
    ConfigError
        If there is no ``=``, or VALUE is not a finite number, or the metric takes no limit.
    UnknownNameError
        If there is no such metric.

    Examples
    --------
    >>> parse_threshold("cosine=0.999")
    ('cosine', 0.999)
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise ConfigError(f"{where}: {text!r} is not METRIC=VALUE, e.g. cosine=0.999")
    metric = SHORT_FORMS.get(name, name)
    if metric not in METRICS:
        raise UnknownNameError(f"{where}: unknown metric {name!r}; {nearest(name, {*METRICS, *SHORT_FORMS})}")
    if METRICS[metric].direction == "none":
        raise ConfigError(f"{where}: {metric} takes no limit")
    return name, finite(value, f"{where}: {text!r}: {value!r} is not a finite number")


def _thresholds(value: object, where: str) -> tuple[tuple[str, float], ...]:
    return tuple(parse_threshold(one, where=where) for one in texts(value, where))


def _without(value: object, where: str) -> dict[str, str]:
    """Read metrics, ids or short forms, each with its place."""
    return {metric_name(one, where=where): where for one in texts(value, where)}


def _align(value: object, where: str) -> Align:
    if not isinstance(value, Mapping):
        raise ConfigError(f'{where} must be a table such as {{ iteration = "9->0" }}, not {shown(value)}')
    return parse_align(value, where=where)


def _typed_align(value: object, where: str) -> Align:
    """Read ``KEY=SPEC`` of the command line; one coordinate may be named several times."""
    table: dict[str, str] = {}
    for one in texts(value, where):
        coordinate, equals, arrows = (part.strip() for part in one.partition("="))
        if not equals:
            raise ConfigError(f"{where}: {one!r} is not KEY=SPEC, e.g. iteration=9->0")
        table[coordinate] = f"{table[coordinate]}, {arrows}" if coordinate in table else arrows
    return parse_align(table, where=where)


# -- ``[[msdump.rule]]`` and ``[[msdump.known_drift]]`` --------------------------------------------------------------


def _levels(value: object, where: str) -> tuple[float | None, float | None]:
    """Read a limit: a number that fails, or a table with `fail`, `warn` or both."""
    if not isinstance(value, Mapping):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{where} must be a number or {{ fail = …, warn = … }}, not {shown(value)}")
        return number(value, where), None
    levels = read_table(value, {"fail": number, "warn": number}, where, join=".")
    if not levels:
        raise ConfigError(f"{where}: needs 'fail' or 'warn'")
    return levels.get("fail"), levels.get("warn")


def _accepted(value: object, where: str) -> tuple[float | None, float | None]:
    """Read the one limit of a known drift, which has no second level: within it is what warns."""
    return number(value, where), None


def _tolerance(value: object, where: str) -> dict[str, float]:
    """Read ``{ rtol, atol }``; one without the other would be a tolerance of 0, which nobody means."""
    tolerance = read_table(value, {"rtol": number, "atol": number}, where, join=".")
    require(tolerance, ("rtol", "atol"), where)
    return tolerance


def _refuse(reason: str) -> Reader:
    """Return a reader for a key that is known, and has no meaning here."""

    def read(_value: object, where: str) -> None:
        raise ConfigError(f"{where} {reason}")

    return read


def _limit_keys(read_limit: Reader) -> dict[str, Reader]:
    """Return one key for each spelling of each metric."""
    keys = dict.fromkeys((*METRICS, *SHORT_FORMS), read_limit)
    unlimited = {name: _refuse("takes no limit") for name, fact in METRICS.items() if fact.direction == "none"}
    return keys | unlimited


_RULE_KEYS: dict[str, Reader] = {
    **_limit_keys(_levels),
    "allclose": _tolerance,
    "match": text,
    "op_type": texts,
    "dtype": text,
    "complex": choice("error", "allow"),
}
_DRIFT_KEYS: dict[str, Reader] = {
    **_limit_keys(_accepted),
    "allclose": _refuse("cannot be a known drift's limit; set one on another metric"),
    "match": text,
    "reason": text,
    "until": date,
}


def rule(table: object, where: str, label: str) -> Rule:
    """Read one rule.

    Parameters
    ----------
    table : object
        What stands in the file.
    where : str
        Its place, for messages.
    label : str
        What findings call it; its `match` is added.

    Raises
    ------
    ConfigError
        An unknown key or metric, a wrong type, no limit, or a limit that nothing or everything would meet.
    """
    said = read_table(table, _RULE_KEYS, where)
    tolerance = said.get("allclose", {})
    # Made under the place, which its own refusals then begin with, and only then called as findings call it.
    made = Rule(
        bounds=_bounds(said, where, needed="complex" not in said),
        match=said.get("match", "*"),
        op_type=said.get("op_type", ()),
        dtype=said.get("dtype"),
        rtol=tolerance.get("rtol"),
        atol=tolerance.get("atol"),
        complex=said.get("complex"),
        label=where,
    )
    return replace(made, label=f'{label} match="{made.match}"')


def known_drift(table: object, where: str, label: str) -> KnownDrift:
    """Read one known drift; parameters as of `rule`."""
    said = read_table(table, _DRIFT_KEYS, where)
    require(said, ("match", "reason", "until"), where)
    made = KnownDrift(said["match"], said["reason"], said["until"], _bounds(said, where), label=where)
    return replace(made, label=f'{label} match="{made.match}"')


def _bounds(
    said: Mapping[str, Any], where: str, *, needed: bool = True
) -> dict[str, tuple[float | None, float | None]]:
    """Collect the limits; a table without any, or anything else to say, would do nothing, unnoticed."""
    bounds: dict[str, tuple[float | None, float | None]] = {
        name: value for name, value in said.items() if name in METRICS or name in SHORT_FORMS
    }
    if not bounds and needed:
        raise ConfigError(f"{where}: sets no limit; write e.g. cosine_similarity = 0.999")
    if "allclose" in bounds:
        # The metric counts the elements outside the tolerance; none may be.
        bounds["allclose"] = (0.0, None)
    return bounds
