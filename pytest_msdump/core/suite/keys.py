"""Keys of a suite file and options of a command line: what each value must be. Every refusal begins with its place."""

from __future__ import annotations

import datetime
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.core.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.core.facts.metrics import METRICS, SHORT_FORMS
from pytest_msdump.core.forms import described
from pytest_msdump.core.limits.policy import KnownDrift, Rule, metric_name, profile_names
from pytest_msdump.core.matching.coordinates import Align, parse_align
from pytest_msdump.core.matching.pairer import ways_named
from pytest_msdump.core.matching.selection import MapEntry
from pytest_msdump.core.model.tensor import Coordinates
from pytest_msdump.core.ports import offered
from pytest_msdump.core.settings.options import (
    OPTIONS,
    finite,
    parse_count,
    parse_coverage,
    parse_jobs,
    parse_report,
    parse_spec,
)
from pytest_msdump.core.storage.locations import RemotePath, is_url
from pytest_msdump.core.suite.documents import path_in_messages, read_toml

# Takes a value and where it stands; returns what it means, or raises ConfigError beginning with that place.
Reader = Callable[[object, str], Any]

# What `read_map` takes.
MapObject = (
    Mapping[str, str] | Callable[[str], str | None] | Iterable[Mapping[str, Any]] | str | os.PathLike[str] | None
)

# From 3.11 on, Python itself would also take weeks and dates without dashes.
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def read_table(table: object, keys: Mapping[str, Reader], where: str, *, join: str = " ") -> dict[str, Any]:
    """Read a table, each key by its reader; unknown keys are refused. `join` stands between its place and a key."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where} must be a table, not {described(table)}")
    for key in table:
        if key not in keys:
            raise UnknownNameError(f"{where}: unknown key {key!r}; {nearest(key, keys)}")
    return {key: keys[key](value, f"{where}{join}{key}") for key, value in table.items()}


def require(table: Collection[str], names: Iterable[str], where: str) -> None:
    """Refuse a table that lacks one of `names`."""
    lacking = [name for name in names if name not in table]
    if lacking:
        raise ConfigError(f"{where}: needs {' and '.join(repr(name) for name in lacking)}")


def text(value: object, where: str) -> str:
    """Read a text that is not empty."""
    if not isinstance(value, str):
        raise ConfigError(f"{where} must be a text, not {described(value)}")
    if not value:
        raise ConfigError(f"{where} must not be empty")
    return value


def texts(value: object, where: str) -> tuple[str, ...]:
    """Read a text, or an array of them."""
    if isinstance(value, str):
        return (text(value, where),)
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{where} must be a text or an array of texts, not {described(value)}")
    return tuple(text(one, f"{where}[{place}]") for place, one in enumerate(value))


def path_text(value: object, where: str) -> str:
    """Read a path and expand ``~``; refuse a NUL byte, which no file name may hold."""
    if isinstance(value, os.PathLike):
        value = str(value) if isinstance(value, RemotePath) else os.fspath(value)
    path = text(value, where)
    if "\0" in path:
        raise ConfigError(f"{where}: {path!r} holds a NUL byte, which no path can")
    try:
        # Path would also turn "./@env", a directory of that name, into "@env", which means something else.
        return str(Path(path).expanduser()) if path.startswith("~") else path
    except RuntimeError:
        raise ConfigError(f"{where}: {path!r} names a home directory that is not known") from None


def flag(value: object, where: str) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise ConfigError(f"{where} must be true or false, not {described(value)}")
    return value


def whole(value: object, where: str) -> int:
    """Read a whole number, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{where} must be a whole number, 0 or more, not {described(value)}")
    return value


def number(value: object, where: str) -> float:
    """Read a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{where} must be a number, not {described(value)}")
    try:
        real = float(value)
    except OverflowError:
        real = math.inf
    if not math.isfinite(real):
        raise ConfigError(f"{where} must be a finite number, not {described(value)}")
    return real


def choice(*words: str) -> Reader:
    """Return a reader of one of `words`."""

    def read(value: object, where: str) -> str:
        word = text(value, where)
        if word not in words:
            raise UnknownNameError(f"{where}: {word!r} is not one of {', '.join(words)}")
        return word

    return read


def date(value: object, where: str) -> datetime.date:
    """Read a local date; a date with a time would be a different day elsewhere."""
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            pass
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        raise ConfigError(f"{where} must be a date such as 2027-01-31, not {described(value)}")
    return value


def permutation(value: object, where: str) -> tuple[int, ...]:
    """Read axes as `numpy.transpose` takes them, each exactly once."""
    if not isinstance(value, list | tuple) or not value:
        raise ConfigError(f"{where} must be an array of axes such as [0, 3, 1, 2], not {described(value)}")
    axes = tuple(whole(axis, f"{where}[{place}]") for place, axis in enumerate(value))
    if sorted(axes) != list(range(len(axes))):
        raise ConfigError(f"{where}: {list(axes)} must name each axis from 0 to {len(axes) - 1} once")
    return axes


def spec_text(value: object, where: str) -> str | None:
    """Read a spec, or one number, and return it as text; ``None`` = all."""
    spec = value if isinstance(value, str) else str(whole(value, where))
    return None if parse_spec(spec, where=where) is None else spec


_SIDES = ("left", "right", "golden", "third")
_FORMATS = ("NCHW", "NHWC", "HWCN", "CHWN")


class PlacedPath(NamedTuple):
    """A path as written, the folder that a relative one starts from, and its place for messages."""

    text: str
    base: Path
    where: str

    @property
    def path(self) -> Path:
        """The path itself."""
        return self.base / self.text


class SideText(NamedTuple):
    """One side as written, a path or a URL. ``@env`` is looked up only when nothing overrides it."""

    path: PlacedPath
    choice: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class FileName:
    """Names of a file: its path for messages, its short name for labels of findings, the prefix of its tables."""

    file: str
    short: str
    title: str

    def place(self, table: str = "", number: int | None = None) -> str:
        """Return the beginning of a message about a table."""
        return f"{self.file}: {self._table(table, number)}"

    def label(self, table: str = "", number: int | None = None) -> str:
        """Return the name of a table in findings."""
        return f"{self.short} {self._table(table, number)}"

    def _table(self, table: str, number: int | None) -> str:
        full = f"{self.title}.{table}" if table else self.title
        return f"[{full}]" if number is None else f"[[{full}]] #{number}"


def read_options(values: Mapping[str, Any], spelled: Mapping[str, str], base: Path) -> dict[str, Any]:
    """Read values of flags or ini keys, ``None`` = not given; `spelled` has the flag or key of each, for messages."""
    readers = _shared_keys(base) | {
        "config": path_text,
        "replay": lambda value, where: str(base / text(value, where)),
        "threshold": lambda value, where: tuple(parse_threshold(one, where=where) for one in texts(value, where)),
        "align": _typed_align,
        **dict.fromkeys(("min_coverage", "min_replayed"), _coverage(is_per_cent=True)),
    }
    unknown = next((name for name in values if name not in readers), None)
    if unknown is not None:
        raise UnknownNameError(f"unknown option {unknown!r}; {nearest(unknown, readers)}")
    return {name: readers[name](value, spelled[name]) for name, value in values.items() if value is not None}


def read_file(table: object, name: FileName, base: Path) -> dict[str, Any]:
    """Read ``[msdump]`` and the tables below it; relative paths start from `base`."""
    return read_table(table, _file_keys(name, base), name.place())


def _shared_keys(base: Path) -> dict[str, Reader]:
    """Return the readers of the options that a suite file and the command line share."""

    def path(value: object, where: str) -> PlacedPath:
        return PlacedPath(_own_path(value, where), base, where)

    by_kind: dict[str, Reader] = {
        "path": path,
        "text": text,
        "texts": texts,
        "number": _number,
        "count": lambda value, where: parse_count(
            value if isinstance(value, str | bool) else whole(value, where), where=where
        ),
        "switch": flag,
    }
    readers = {
        option.name: choice(*option.choices) if option.choices else by_kind[option.kind]
        for option in OPTIONS
        if option.toml
    }
    return readers | {
        **dict.fromkeys(_SIDES, partial(_side, base=base)),
        "profile": _profile,
        "pair_by": lambda value, where: ways_named(texts(value, where), where=where),
        "without": lambda value, where: {metric_name(one, where=where): where for one in texts(value, where)},
        "iteration": _spec,
        "rank": _spec,
        "graph": _spec,
        "report": _report,
        "jobs": lambda value, where: parse_jobs(value if isinstance(value, str) else whole(value, where), where=where),
    }


def _file_keys(name: FileName, base: Path) -> dict[str, Reader]:
    """Return the readers of every key of ``[msdump]``."""

    def graph_files(value: object, where: str) -> tuple[Path, ...]:
        if not isinstance(value, list):
            raise ConfigError(f"{where} must be an array of paths, not {described(value)}")
        return tuple(base / _own_path(one, f"{where}[{place}]") for place, one in enumerate(value))

    shards: dict[str, Reader] = {**dict.fromkeys(_SIDES, partial(_mesh, base=base)), "tokens": _tokens}
    return _shared_keys(base) | {
        **dict.fromkeys(("min_coverage", "min_replayed"), _coverage(is_per_cent=False)),
        "graph_files": graph_files,
        "nan": choice("match", "forbid"),
        "dtype_hint": flag,
        "left_format": choice(*_FORMATS),
        "right_format": choice(*_FORMATS),
        "align": _align,
        "map": lambda value, _where: read_map(value, name, base),
        "rule": _tables(name, "rule", _rule),
        "known_drift": _tables(name, "known_drift", _known_drift),
        "shards": lambda value, _where: read_table(value, shards, name.place("shards")),
        "dims": _tables(name, "dims", _dims),
    }


def _tables(name: FileName, title: str, read: Any) -> Reader:
    """Return a reader of an array of tables; messages number them from 1."""

    def read_all(value: object, _where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ConfigError(
                f"{name.place(title)} must be an array of tables, not {described(value)}; "
                f"write [[{name.title}.{title}]]"
            )
        return tuple(
            read(table, name.place(title, place), name.label(title, place)) for place, table in enumerate(value, 1)
        )

    return read_all


def read_map(value: object, name: FileName, base: Path) -> tuple[MapEntry, ...]:
    """Read a map object."""
    if value is None:
        return ()
    if callable(value):
        return (MapEntry("*", "*", label=name.label("map"), rename=value),)
    if isinstance(value, str | os.PathLike):
        path = base / _own_path(value, name.place("map"))
        document: object = read_toml(path)
        for key in ("msdump", "map"):
            if not isinstance(document, Mapping) or key not in document:
                raise ConfigError(f"{name.place('map')}: {path} has no [[msdump.map]]")
            document = document[key]
        return read_map(document, FileName(str(path), path.name, "msdump"), path.parent)
    if isinstance(value, Mapping):
        value = [{"left": left, "right": right} for left, right in value.items()]
    entries: tuple[MapEntry, ...] = _tables(name, "map", _entry)(list(value) if isinstance(value, tuple) else value, "")
    return entries


_COORDINATE_KEYS: dict[str, Reader] = {
    "rank": whole,
    "net": text,
    "graph": whole,
    "iteration": whole,
    "occurrence": whole,
}
_ENTRY_KEYS: dict[str, Reader] = {
    "left": text,
    "right": text,
    "reshape": flag,
    "transpose": permutation,
    **_COORDINATE_KEYS,
}
_SIDE_KEYS: dict[str, Reader] = {
    "path": path_text,
    "net": text,
    "rank": spec_text,
    "graph": spec_text,
    "iteration": spec_text,
}


def _entry(table: object, where: str, label: str) -> MapEntry:
    entry = read_table(table, _ENTRY_KEYS, where)
    require(entry, ("left", "right"), where)
    return MapEntry(**entry, label=label)


def _side(value: object, where: str, base: Path) -> SideText:
    """Read a side: a path, or a table of a path and coordinates."""
    if not isinstance(value, Mapping | str | os.PathLike):
        raise ConfigError(f"{where} must be a path or {{ path = …, rank = … }}, not {described(value)}")
    if not isinstance(value, Mapping):
        return SideText(PlacedPath(path_text(value, where), base, where), {})
    side = read_table(value, _SIDE_KEYS, where, join=".")
    require(side, ("path",), where)
    return SideText(PlacedPath(side.pop("path"), base, f"{where}.path"), side)


def _own_path(value: object, where: str) -> str:
    path = path_text(value, where)
    if is_url(path):
        raise ConfigError(f"{where} must be a path of this machine: only dumps may be URLs")
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
    kinds = parse_report(value if isinstance(value, str) else texts(value, where), where=where)
    # The page refers to results.json for what it has no room for.
    return ("json", *kinds) if "html" in kinds and "json" not in kinds else kinds


def _number(value: object, where: str) -> float:
    typed = isinstance(value, str)
    return finite(str(value).strip(), f"{where}: {value!r} is not a finite number") if typed else number(value, where)


def parse_threshold(text: str, *, where: str = "--msdump-threshold") -> tuple[str, float]:
    """Read ``METRIC=VALUE``; return the metric as typed, an id or a short form, and its limit."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise ConfigError(f"{where}: {text!r} is not METRIC=VALUE, e.g. cosine=0.999")
    metric = metric_name(name, where=where)
    if METRICS[metric].direction == "none":
        raise ConfigError(f"{where}: {metric} takes no limit")
    return name, finite(value, f"{where}: {text!r}: {value!r} is not a finite number")


def _align(value: object, where: str) -> Align:
    if not isinstance(value, Mapping):
        raise ConfigError(f'{where} must be a table such as {{ iteration = "9->0" }}, not {described(value)}')
    return parse_align(value, where=where)


def _coverage(*, is_per_cent: bool) -> Reader:
    def read(value: object, where: str) -> float:
        return parse_coverage(value if isinstance(value, str) else number(value, where), flag=is_per_cent, where=where)

    return read


def _typed_align(value: object, where: str) -> Align:
    """Read ``KEY=SPEC`` of the command line; one coordinate may be named several times."""
    table: dict[str, str] = {}
    for one in texts(value, where):
        coordinate, equals, arrows = (part.strip() for part in one.partition("="))
        if not equals:
            raise ConfigError(f"{where}: {one!r} is not KEY=SPEC, e.g. iteration=9->0")
        table[coordinate] = f"{table[coordinate]}, {arrows}" if coordinate in table else arrows
    return parse_align(table, where=where)


def _sizes(value: object, where: str) -> dict[str, int]:
    if not isinstance(value, Mapping) or not value:
        raise ConfigError(f"{where} must be a table such as {{ tp = 2, cp = 2 }}, not {described(value)}")
    return {axis: whole(size, f"{where}.{axis}") for axis, size in value.items()}


def _mesh(value: object, where: str, base: Path) -> Any:
    readers = {"axes": _sizes, "order": text, "from": choice("order", "dir", "meta"), "renumber": _renumberings}
    keys = read_table(value, readers | {"strategy": _own_path}, where, join=".")
    source, renumber = keys.get("from", "order"), keys.get("renumber", ())
    if file := keys.get("strategy"):
        if source != "order":
            raise ConfigError(f"{where}.strategy: is about ranks by their number; leave from out")
        strategy = offered("strategy").read_strategy(
            base / file, name=f"{where}.strategy: {path_in_messages(base / file)}"
        )
        keys.setdefault("axes", {})
    if source == "meta":
        if given := next((name for name in ("axes", "order") if name in keys), None):
            raise ConfigError(f'{where}.{given}: with from = "meta" the ranks themselves say it; leave it out')
        return offered("shards").Mesh((), source, renumber)
    require(keys, ("axes",), where)
    mesh = offered("shards").Mesh.of(keys["axes"], keys.get("order"), source=source, where=where)
    return replace(mesh, renumber=renumber, strategy=strategy if file else None)


def _tokens(value: object, where: str) -> Any:
    readers = {"ids": text, "pad": whole, "mask": text, "match": texts, "steps": choice("iteration", "occurrence")}
    keys = read_table(value, readers, where, join=".")
    require(keys, ("ids",), where)
    return offered("shards").TokenIds(**keys)


def _renumberings(value: object, where: str) -> tuple[Any, ...]:
    found = []
    for number, table in enumerate(value if isinstance(value, list) else [value], 1):
        place, readers = f"{where}[{number}]", {"axis": text, "names": text, "each": _lengths}
        keys = read_table(table, readers, place, join=".")
        require(keys, tuple(readers), place)
        found.append(offered("shards").Renumbering(**keys, where=place))
    return tuple(found)


def _lengths(value: object, where: str) -> tuple[int, ...]:
    """Read one whole number, or an array of them."""
    numbers = value if isinstance(value, list) else [value]
    return tuple(whole(one, f"{where}[{place}]") for place, one in enumerate(numbers))


def _dims(table: object, where: str, _label: str) -> Any:
    readers = {"match": text, "dims": _any_text, "side": choice(*_SIDES), "lengths": _lengths}
    keys = read_table(table, readers, where)
    require(keys, ("match", "dims"), where)
    dims = offered("shards").parse_dims(keys["dims"], where=f"{where} dims", lengths=keys.get("lengths", ()))
    return offered("shards").DimsEntry(keys["match"], dims, keys.get("side"))


def _any_text(value: object, where: str) -> str:
    """Read a text, also an empty one: the dimensions of a number."""
    return value if value == "" and isinstance(value, str) else text(value, where)


def _levels(value: object, where: str) -> tuple[float | None, float | None]:
    """Read a limit: a number that fails, or a table with `fail`, `warn` or both."""
    if not isinstance(value, Mapping):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{where} must be a number or {{ fail = …, warn = … }}, not {described(value)}")
        return number(value, where), None
    levels = read_table(value, {"fail": number, "warn": number}, where, join=".")
    if not levels:
        raise ConfigError(f"{where}: needs 'fail' or 'warn'")
    return levels.get("fail"), levels.get("warn")


def _tolerance(value: object, where: str) -> dict[str, float]:
    """Read ``{ rtol, atol }``; one without the other would be an unintended tolerance of 0."""
    tolerance = read_table(value, {"rtol": number, "atol": number}, where, join=".")
    require(tolerance, ("rtol", "atol"), where)
    return tolerance


def _refuse(reason: str) -> Reader:
    """Return a reader of a key that is known but not allowed here."""

    def read(_value: object, where: str) -> None:
        raise ConfigError(f"{where} {reason}")

    return read


def _limit_keys(read_limit: Reader) -> dict[str, Reader]:
    """Return a key for each id and short form of a metric."""
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
    "slice_axis": whole,
}
_DRIFT_KEYS: dict[str, Reader] = {
    # One level: within it is what warns.
    **_limit_keys(lambda value, where: (number(value, where), None)),
    "allclose": _refuse("cannot be a known drift's limit; set one on another metric"),
    "match": text,
    "reason": text,
    "until": date,
    "operator": text,
    **_COORDINATE_KEYS,
}


def _rule(table: object, where: str, label: str) -> Rule:
    """Read one rule; its name in findings is `label` with its `match`."""
    keys = read_table(table, _RULE_KEYS, where)
    bounds = _bounds(keys, where, needed=keys.keys().isdisjoint({"complex", "slice_axis"}))
    names = ("match", "op_type", "dtype", "complex", "slice_axis")
    rest: dict[str, Any] = {name: keys[name] for name in names if name in keys}
    # The label begins the rule's own refusals, so it is the place until the rule is made.
    rule = Rule(bounds=bounds, **rest, **keys.get("allclose", {}), label=where)
    return replace(rule, label=f'{label} match="{rule.match}"')


def _known_drift(table: object, where: str, label: str) -> KnownDrift:
    """Read one known drift; its name in findings as for a rule."""
    keys = read_table(table, _DRIFT_KEYS, where)
    require(keys, ("match", "reason", "until"), where)
    at = Coordinates(**{name: keys[name] for name in _COORDINATE_KEYS if name in keys})
    more = {"at": at, "operator": keys.get("operator", "")}
    drift = KnownDrift(keys["match"], keys["reason"], keys["until"], _bounds(keys, where), label=where, **more)
    return replace(drift, label=f'{label} match="{drift.match}"')


def _bounds(
    keys: Mapping[str, Any], where: str, *, needed: bool = True
) -> dict[str, tuple[float | None, float | None]]:
    """Collect the limits; a table without any would have no effect, unnoticed."""
    bounds = {name: value for name, value in keys.items() if name in METRICS or name in SHORT_FORMS}
    if not bounds and needed:
        raise ConfigError(f"{where}: sets no limit; write e.g. cosine_similarity = 0.999")
    if "allclose" in bounds:
        # The metric counts the elements outside the tolerance; none are allowed.
        bounds["allclose"] = (0.0, None)
    return bounds
