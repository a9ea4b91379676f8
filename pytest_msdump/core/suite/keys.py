"""Keys of a suite file and options of a command line: what each value must be. Every refusal begins with its place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.metrics import METRICS, SHORT_FORMS
from pytest_msdump.core.forms import Form, by_name, described, expected, lacking, list_of, union
from pytest_msdump.core.forms.values import FLAG, TEXT, whole
from pytest_msdump.core.limits.policy import KnownDrift, Rule, metric_name, profile_names
from pytest_msdump.core.matching.coordinates import Align, parse_align
from pytest_msdump.core.matching.pairer import ways_named
from pytest_msdump.core.matching.selection import Joined, MapEntry
from pytest_msdump.core.model.tensor import Coordinates
from pytest_msdump.core.ports import load, offered, rows
from pytest_msdump.core.settings.options import (
    OPTIONS,
    finite,
    parse_count,
    parse_coverage,
    parse_jobs,
    parse_report,
    parse_spec,
)
from pytest_msdump.core.storage.locations import is_url
from pytest_msdump.core.suite.documents import path_in_messages, read_toml
from pytest_msdump.core.suite.value_forms import (
    TEXTS,
    WHOLE,
    choice_of,
    date,
    filled_text,
    finite_number,
    path_text,
    permutation,
    spec_text,
    table_of,
)

# What `read_map` takes.
MapObject = (
    Mapping[str, str] | Callable[[str], str | None] | Iterable[Mapping[str, Any]] | str | os.PathLike[str] | None
)

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
    choice: Mapping[str, Any]


class FileName(NamedTuple):
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
        "config": Form(path_text),
        "replay": Form(lambda value, where: str(base / filled_text.read(value, where))),
        "threshold": Form(
            lambda value, where: tuple(parse_threshold(one, where=where) for one in TEXTS.read(value, where))
        ),
        "align": Form(_typed_align),
        **dict.fromkeys(("min_coverage", "min_replayed"), _coverage(is_per_cent=True)),
    }
    unknown = next((name for name in values if name not in readers), None)
    if unknown is not None:
        raise UnknownNameError(f"unknown option {unknown!r}; {nearest(unknown, readers)}")
    return {name: readers[name].read(value, spelled[name]) for name, value in values.items() if value is not None}


def read_file(table: object, name: FileName, base: Path) -> dict[str, Any]:
    """Read ``[msdump]`` and the tables below it; relative paths start from `base`."""
    values: dict[str, Any] = table_of(_file_keys(name, base), join=" ").read(table, name.place())
    return values


def _shared_keys(base: Path) -> dict[str, Form]:
    """Return the forms of the options that a suite file and the command line share."""

    def path(value: object, where: str) -> PlacedPath:
        return PlacedPath(_own_path(value, where), base, where)

    by_kind = {
        "path": Form(path),
        "text": filled_text,
        "texts": TEXTS,
        "number": Form(_number),
        "count": Form(
            lambda value, where: parse_count(
                value if isinstance(value, str | bool) else WHOLE.read(value, where), where=where
            )
        ),
        "switch": FLAG,
    }
    readers = {
        option.name: Form(partial(_made, option.read, base))
        if option.read
        else choice_of(*option.choices)
        if option.choices
        else by_kind[option.kind]
        for option in OPTIONS
        if option.toml
    }
    return readers | {
        **dict.fromkeys(_SIDES, Form(partial(_side, base=base))),
        "profile": Form(_profile),
        "pair_by": Form(lambda value, where: ways_named(TEXTS.read(value, where), where=where)),
        "without": Form(
            lambda value, where: {metric_name(one, where=where): where for one in TEXTS.read(value, where)}
        ),
        **dict.fromkeys(("iteration", "rank", "graph"), Form(_spec)),
        "report": Form(_report),
        "jobs": Form(
            lambda value, where: parse_jobs(value if isinstance(value, str) else WHOLE.read(value, where), where=where)
        ),
    }


def _made(by: str, base: Path, value: object, where: str) -> Any:
    return load(by)(PlacedPath(_own_path(value, where), base, where))


def _file_keys(name: FileName, base: Path) -> dict[str, Form]:
    """Return the forms of every key of ``[msdump]``."""
    own_path = Form(lambda value, where: base / _own_path(value, where))
    shards = table_of({**dict.fromkeys(_SIDES, Form(partial(_mesh, base=base))), "tokens": Form(_tokens)}, join=" ")
    return _shared_keys(base) | {
        **dict.fromkeys(("min_coverage", "min_replayed"), _coverage(is_per_cent=False)),
        "graph_files": list_of(own_path, what="an array of paths"),
        "nan": choice_of("match", "forbid"),
        "dtype_hint": FLAG,
        "left_format": choice_of(*_FORMATS),
        "right_format": choice_of(*_FORMATS),
        "align": Form(_align),
        "map": Form(lambda value, _where: read_map(value, name, base)),
        "rule": _tables(name, "rule", _rule),
        "known_drift": _tables(name, "known_drift", _known_drift),
        "shards": Form(lambda value, _where: shards.read(value, name.place("shards"))),
        "dims": _tables(name, "dims", _dims),
    }


def _tables(name: FileName, title: str, read: Any) -> Form:
    """Return the form of an array of tables; messages number them from 1."""

    def read_all(value: object, _where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ConfigError(
                f"{name.place(title)} must be an array of tables, not {described(value)}; "
                f"write [[{name.title}.{title}]]"
            )
        return tuple(
            read(table, name.place(title, place), name.label(title, place)) for place, table in enumerate(value, 1)
        )

    return Form(read_all)


def read_map(value: object, name: FileName, base: Path) -> tuple[MapEntry, ...]:
    """Read a map object."""
    if value is None:
        return ()
    if callable(value):
        return (MapEntry("*", "*", label=name.label("map"), rename=value),)
    if isinstance(value, str | os.PathLike):
        path = base / _own_path(value, name.place("map"))
        if path.suffix.lower() in (".yaml", ".yml"):
            layers = offered("layer_mapping").read_layers(path, where=name.place("map"))
            return (MapEntry("*", "*", label=name.label("map"), rename=layers),)
        document: object = read_toml(path)
        for key in ("msdump", "map"):
            if not isinstance(document, Mapping) or key not in document:
                raise ConfigError(f"{name.place('map')}: {path} has no [[msdump.map]]")
            document = document[key]
        return read_map(document, FileName(str(path), path.name, "msdump"), path.parent)
    if isinstance(value, Mapping):
        value = [{"left": left, "right": right} for left, right in value.items()]
    tables = _tables(name, "map", _entries).read(list(value) if isinstance(value, tuple) else value, "")
    return tuple(chain.from_iterable(tables))


_COORDINATE_KEYS: dict[str, Form] = {
    "rank": WHOLE,
    "net": filled_text,
    "graph": WHOLE,
    "iteration": WHOLE,
    "occurrence": WHOLE,
}
_AXIS = whole("an axis: a whole number, -1 for the last", least=-32, most=32)
_ENTRY = table_of(
    {
        **dict.fromkeys(("left", "right"), TEXTS),
        "join": _AXIS,
        "crop": union("the number of an axis or its name", (int, _AXIS), (str, filled_text)),
        "reshape": FLAG,
        "transpose": permutation,
        **_COORDINATE_KEYS,
    },
    "left",
    "right",
    join=" ",
)


def _dtype(value: object, where: str) -> str:
    name = canonical(filled_text.read(value, where))
    if name is None or not DTYPES[name].native:
        known = [one for one, fact in DTYPES.items() if fact.native]
        raise UnknownNameError(f"{where}: no numbers are known of data type {value!r}; {nearest(str(value), known)}")
    return name


_SHAPE = list_of(WHOLE, what="an array of lengths")


def _by_operator(form: Form, kind: type | tuple[type, ...], what: str) -> Form:
    """Return the form of a value for all operators, or of a table of operators and their values, as pairs of both."""
    named = by_name(form)
    return union(
        f"{what}, or a table of operators and such",
        (kind, Form(lambda value, where: (("*", form.read(value, where)),))),
        (Mapping, Form(lambda value, where: tuple(named.read(value, where).items()))),
    )


_SIDE = table_of(
    {
        "path": Form(path_text),
        "net": filled_text,
        **dict.fromkeys(("rank", "graph", "iteration"), Form(spec_text)),
        "dtype": _by_operator(Form(_dtype), str, "a data type"),
        "shape": _by_operator(_SHAPE, (list, tuple), "an array of lengths"),
    },
    "path",
)


def _entries(table: object, where: str, label: str) -> list[MapEntry]:
    """Read one entry: a pair, or one for each of the tensors that lie side by side in another."""
    found = _ENTRY.read(table, where)
    left, right, axis = found.pop("left"), found.pop("right"), found.pop("join", None)
    several = [names for names in (left, right) if len(names) > 1]
    if len(several) == 2 or not (left and right):
        raise ConfigError(f"{where}: names of several tensors stand on one side, and one tensor on the other")
    if not several and axis is not None:
        raise ConfigError(f"{where} join: says along which axis several tensors lie; name them, left = [...]")
    if not several:
        return [MapEntry(left[0], right[0], **found, label=label)]
    whole = "left" if several[0] is right else "right"
    return [
        MapEntry(
            left[number % len(left)],
            right[number % len(right)],
            **found,
            label=label,
            joined=Joined(whole, several[0], number, -1 if axis is None else axis),
        )
        for number in range(len(several[0]))
    ]


def _side(value: object, where: str, base: Path) -> SideText:
    """Read a side: a path, or a table of a path and coordinates."""
    if isinstance(value, Mapping):
        side = _SIDE.read(value, where)
        if "shape" in side and "dtype" not in side:
            raise ConfigError(f"{where}: shape is of files without a header, which need dtype, too")
        return SideText(PlacedPath(side.pop("path"), base, f"{where}.path"), side)
    if not isinstance(value, str | os.PathLike):
        raise expected("a path or { path = …, rank = … }", value, where)
    return SideText(PlacedPath(path_text(value, where), base, where), {})


def _own_path(value: object, where: str) -> str:
    path = path_text(value, where)
    if is_url(path):
        raise ConfigError(f"{where} must be a path of this machine: only dumps may be URLs")
    return path


def _jobs(value: object, where: str) -> int:
    return parse_jobs(value if isinstance(value, str) else WHOLE.read(value, where), where=where)


def _profile(value: object, where: str) -> str:
    name: str = filled_text.read(value, where)
    if name not in profile_names():
        raise UnknownNameError(f"{where}: unknown profile {name!r}; {nearest(name, profile_names())}")
    return name


def _spec(value: object, where: str) -> frozenset[int] | None:
    spec = spec_text(value, where)
    return None if spec is None else parse_spec(spec, where=where)


def _report(value: object, where: str) -> tuple[str, ...]:
    kinds = parse_report(value if isinstance(value, str) else TEXTS.read(value, where), where=where)
    # The page refers to results.json for what it has no room for.
    return ("json", *kinds) if "html" in kinds and "json" not in kinds else kinds


def _number(value: object, where: str) -> float:
    if isinstance(value, str):
        return finite(value.strip(), f"{where}: {value!r} is not a finite number")
    return float(finite_number.read(value, where))


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
        raise expected('a table such as { iteration = "9->0" }', value, where)
    return parse_align(value, where=where)


def _coverage(*, is_per_cent: bool) -> Form:
    def read(value: object, where: str) -> float:
        share = value if isinstance(value, str) else finite_number.read(value, where)
        return parse_coverage(share, flag=is_per_cent, where=where)

    return Form(read)


def _typed_align(value: object, where: str) -> Align:
    """Read ``KEY=SPEC`` of the command line; one coordinate may be named several times."""
    table: dict[str, str] = {}
    for one in TEXTS.read(value, where):
        coordinate, equals, arrows = (part.strip() for part in one.partition("="))
        if not equals:
            raise ConfigError(f"{where}: {one!r} is not KEY=SPEC, e.g. iteration=9->0")
        table[coordinate] = f"{table[coordinate]}, {arrows}" if coordinate in table else arrows
    return parse_align(table, where=where)


@Form
def _sizes(value: Any, where: str) -> dict[str, int]:
    what = "a table such as { tp = 2, cp = 2 }"
    sizes: dict[str, int] = by_name(WHOLE, what=what).read(value, where)
    if not sizes:
        raise expected(what, value, where)
    return sizes


_LENGTHS = Form(lambda value, where: list_of(WHOLE).read(value if isinstance(value, list) else [value], where))
_RENUMBERING = table_of({"axis": filled_text, "names": filled_text, "each": _LENGTHS}, "axis", "names", "each")


@Form
def _renumberings(value: Any, where: str) -> tuple[Any, ...]:
    made = offered("shards").Renumbering
    places = [
        (f"{where}[{number}]", one) for number, one in enumerate(value if isinstance(value, list) else [value], 1)
    ]
    return tuple(made(**_RENUMBERING.read(one, place), where=place) for place, one in places)


_MESH = table_of(
    {
        "axes": _sizes,
        "order": filled_text,
        "from": choice_of("order", "dir", "meta"),
        "renumber": _renumberings,
        "strategy": Form(_own_path),
    }
)
_TOKENS = table_of(
    {
        "ids": filled_text,
        "pad": WHOLE,
        "mask": filled_text,
        "match": TEXTS,
        "steps": choice_of("iteration", "occurrence"),
    },
    "ids",
)
# The dimensions of a number are an empty text.
_DIMS = table_of(
    {"match": filled_text, "dims": TEXT, "side": choice_of(*_SIDES), "lengths": _LENGTHS}, "match", "dims", join=" "
)


def _mesh(value: object, where: str, base: Path) -> Any:
    keys = _MESH.read(value, where)
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
    if "axes" not in keys:
        raise lacking(keys, ("axes",), where)
    mesh = offered("shards").Mesh.of(keys["axes"], keys.get("order"), source=source, where=where)
    return replace(mesh, renumber=renumber, strategy=strategy if file else None)


def _tokens(value: object, where: str) -> Any:
    return offered("shards").TokenIds(**_TOKENS.read(value, where))


def _dims(table: object, where: str, _label: str) -> Any:
    keys = _DIMS.read(table, where)
    dims = offered("shards").parse_dims(keys["dims"], where=f"{where} dims", lengths=keys.get("lengths", ()))
    return offered("shards").DimsEntry(keys["match"], dims, keys.get("side"))


_TOLERANCE = table_of({"rtol": finite_number, "atol": finite_number}, "rtol", "atol")
_LEVELS = table_of({"fail": finite_number, "warn": finite_number})


def _read_levels(value: Any, where: str) -> tuple[float | None, float | None]:
    levels = _LEVELS.read(value, where)
    if not levels:
        raise ConfigError(f"{where}: needs 'fail' or 'warn'")
    return levels.get("fail"), levels.get("warn")


# Of one number, and of a known drift: within it is what warns.
_LEVEL = Form(lambda value, where: (finite_number.read(value, where), None))
_LIMIT = union("a number or { fail = …, warn = … }", (Mapping, Form(_read_levels)), ((int, float), _LEVEL))


def _refuse(reason: str) -> Form:
    """Return the form of a key that is known but not allowed here."""

    def read(_value: object, where: str) -> None:
        raise ConfigError(f"{where} {reason}")

    return Form(read)


def _limit_keys(limit: Form) -> dict[str, Form]:
    """Return a key for each id and short form of a metric."""
    keys = dict.fromkeys((*METRICS, *SHORT_FORMS), limit)
    unlimited = {name: _refuse("takes no limit") for name, fact in METRICS.items() if fact.direction == "none"}
    return keys | unlimited


# What a key that a capability adds to a rule may be.
_MARKS = {
    "flag": FLAG,
    "text": filled_text,
    "flag or text": Form(lambda value, where: (FLAG if isinstance(value, bool) else filled_text).read(value, where)),
}
_RULE = table_of(
    {
        **{name: _MARKS[kind] for name, kind in rows("RULE_KEYS").items()},
        **_limit_keys(_LIMIT),
        "allclose": _TOLERANCE,
        "match": filled_text,
        "op_type": TEXTS,
        "dtype": filled_text,
        "complex": choice_of("error", "allow"),
        "slice_axis": WHOLE,
    },
    join=" ",
)
_DRIFT = table_of(
    {
        **_limit_keys(_LEVEL),
        "allclose": _refuse("cannot be a known drift's limit; set one on another metric"),
        "match": filled_text,
        "reason": filled_text,
        "until": date,
        "operator": filled_text,
        **_COORDINATE_KEYS,
    },
    *("match", "reason", "until"),
    join=" ",
)


def _rule(table: object, where: str, label: str) -> Rule:
    """Read one rule; its name in findings is `label` with its `match`."""
    keys = _RULE.read(table, where)
    marks = {name: keys[name] for name in rows("RULE_KEYS") if keys.get(name)}
    bounds = _bounds(keys, where, needed=not marks and keys.keys().isdisjoint({"complex", "slice_axis"}))
    names = ("match", "op_type", "dtype", "complex", "slice_axis")
    rest: dict[str, Any] = {name: keys[name] for name in names if name in keys}
    # The label begins the rule's own refusals, so it is the place until the rule is made.
    rule = Rule(bounds=bounds, **rest, **keys.get("allclose", {}), label=where, marks=marks)
    return replace(rule, label=f'{label} match="{rule.match}"')


def _known_drift(table: object, where: str, label: str) -> KnownDrift:
    """Read one known drift; its name in findings as for a rule."""
    keys = _DRIFT.read(table, where)
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
