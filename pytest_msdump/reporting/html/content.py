"""What the page is drawn from: results.json by columns, each number with the digits that a person reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_msdump.facts.metrics import METRICS
from pytest_msdump.reporting.html.columns import Pool, column, file_columns, front_coded, short
from pytest_msdump.reporting.html.details import details

__all__ = ["content"]

Entry = Mapping[str, Any]

_COORDINATES = ("rank", "net", "graph", "iteration", "occurrence")
_PLAIN = ("order", "elements", "differing", "right_zero_mismatch", "equal", "total_elements")
_POOLED = ("verdict", "role", "how", "by", "judged_as", "known_drift", "rtol", "atol", *_COORDINATES)
_OF_A_SIDE = ("op_type", "dtype", "shape", "memory_format", "logical_shape")

# Told as they stand in results.json; a key that is not there is not told.
_HEAD = (
    "left",
    "right",
    "profile",
    "limits",
    "complete",
    "counts",
    "coverage",
    "missing",
    "notes",
    "rerun",
    "localised_by",
)

# A list that nobody would read to its end; results.json has all of it.
_MOST_UNMATCHED = 10_000


def content(values: Entry, *, problems: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the page's data.

    Parameters
    ----------
    values : mapping
        results.json as parsed, or its outline.
    problems : mapping of str to sequence of str
        Why the item `coverage` fails, by language.
    """
    pool = Pool()
    records: Sequence[Entry] = values["tensors"]
    metrics = _metrics(records)
    data: dict[str, Any] = {
        **{key: values[key] for key in _HEAD if key in values},
        "problems": {language: list(listed) for language, listed in problems.items()},
        "metrics": [[name, *_fact(name)] for name in metrics],
        "rows": len(records),
        "tensors": {
            **{key: column(_plain(record.get(key)) for record in records) for key in _PLAIN},
            **{key: column(pool.add(record.get(key)) for record in records) for key in _POOLED},
            **{side: _side([record[side] for record in records], pool) for side in ("left", "right")},
            "values": {name: column(_number(record["metrics"].get(name)) for record in records) for name in metrics},
            "limits": column(pool.add(_limits(record)) for record in records),
            "outcomes": column(pool.add(_outcomes(record)) for record in records),
        },
        "unmatched": _unmatched(values["unmatched"], pool),
        **({"edges": [number for edge in values["edges"] for number in edge]} if values.get("edges") else {}),
    }
    return {**data, "details": details(records, pool), "pool": pool.values}


def _metrics(records: Sequence[Entry]) -> list[str]:
    """The metrics that are single numbers, those that the tool knows first, in its order."""
    found = {name for record in records for name, value in record["metrics"].items() if not isinstance(value, list)}
    return [*(name for name in METRICS if name in found), *sorted(found - METRICS.keys())]


def _fact(name: str) -> tuple[str, str]:
    """A metric's title, and which way it is good."""
    fact = METRICS.get(name)
    return (fact.title, fact.direction) if fact else (name, "low")


def _plain(value: Any) -> Any:
    """A number as it is; truth as 1 and 0."""
    return int(value) if isinstance(value, bool) else value


def _number(value: Any) -> Any:
    """A metric's number; means and deviations are told in the drawer."""
    return None if isinstance(value, list) else short(value)


def _side(sides: Sequence[Entry], pool: Pool) -> dict[str, Any]:
    """One side of all records: who it is, what it holds, which file."""
    return {
        "label": front_coded(_label(side) for side in sides),
        "slot": column(pool.add(_slot(side)) for side in sides),
        "name": column(pool.add(_other_name(side)) for side in sides),
        **{key: column(pool.add(side.get(key)) for side in sides) for key in _OF_A_SIDE},
        **file_columns([side["file"] for side in sides], [_in_file(side) for side in sides], pool),
    }


def _label(side: Entry) -> str:
    """The operator's name as its address has it."""
    return str(side["address"]).rsplit(":", 2)[0]


def _slot(side: Entry) -> str:
    """The rest of the address."""
    return str(side["address"])[len(_label(side)) :]


def _in_file(side: Entry) -> str:
    """The operator's name as file names have it."""
    return _label(side).replace("/", "_")


def _other_name(side: Entry) -> str | None:
    """The dump's own name where it does not follow from the address."""
    name = side.get("name")
    return None if name is None or name in (_label(side), _in_file(side)) else str(name)


def _limits(record: Entry) -> list[list[Any]]:
    """Metric, limit, level and rule of every limit of a record; most records have the same ones."""
    return [
        [check["metric"], check["limit"], check.get("level"), check.get("rule")]
        for check in record["checks"]
        if check.get("limit") is not None
    ]


def _outcomes(record: Entry) -> list[str]:
    """What came of each of these limits, in their order."""
    return [check["outcome"].lower() for check in record["checks"] if check.get("limit") is not None]


def _unmatched(entries: Sequence[Entry], pool: Pool) -> dict[str, Any]:
    """Who found no partner."""
    listed = entries[:_MOST_UNMATCHED]
    return {
        "rows": len(listed),
        "all": len(entries),
        "label": front_coded(_label(entry) for entry in listed),
        "slot": column(pool.add(_slot(entry)) for entry in listed),
        **{
            key: column(pool.add(entry.get(key)) for entry in listed)
            for key in ("side", "op_type", "dtype", "shape", "reason", "candidates", "suggestions", "order")
        },
        **file_columns([entry.get("file") or "" for entry in listed], [_in_file(entry) for entry in listed], pool),
    }
