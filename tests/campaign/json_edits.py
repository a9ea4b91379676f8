"""Edits of a parsed JSON document: each of its values replaced by values that it must not have, or taken away."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any

__all__ = ["DELETED", "HOSTILE", "Path", "edited", "paths", "pattern", "recounted"]

Path = tuple[str | int, ...]

DELETED = object()


def _nested(levels: int) -> list[Any]:
    return [] if not levels else [_nested(levels - 1)]


HOSTILE: tuple[Any, ...] = (
    DELETED, None, True, False, -1, 0, 1, 2**63, 2**64, 10**400, 1e308, -0.5, 1e-320,
    "NaN", "nan", "Infinity", "", "x", "a:output:0", "\udcff\n=1+1", "\0\x1b]0;x\a", "x" * 3000,
    [], [[]], [None], [0], ["a"], [1] * 70, {}, {"a": 1}, {"a": {}}, _nested(60),
)  # fmt: skip


def paths(value: Any, start: Path = (), *, most: int = 2) -> Iterator[Path]:
    """Where values are in a document, but not the whole of it; of each list the first items only."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*start, key)
            yield from paths(item, (*start, key), most=most)
    elif isinstance(value, list):
        for number, item in enumerate(value[:most]):
            yield (*start, number)
            yield from paths(item, (*start, number), most=most)


def pattern(path: Path) -> str:
    """A path without the numbers in it: places of one pattern hold values of one kind."""
    return "".join("[]" if isinstance(step, int) else f".{step}" for step in path)


def edited(document: Any, path: Path, value: Any) -> Any:
    """Return a copy of a document with another value, or none, at one place."""
    found = copy.deepcopy(document)
    holder = found
    for step in path[:-1]:
        holder = holder[step]
    if value is DELETED:
        del holder[path[-1]]
    else:
        holder[path[-1]] = copy.deepcopy(value)
    return found


def recounted(results: Any) -> Any:
    """Return results.json with counts that agree with its entries, as far as there are entries to count."""
    try:
        verdicts = Counter(record["verdict"] for record in results["tensors"])
        counts = {verdict: verdicts.get(verdict, 0) for verdict in ("pass", "warn", "fail", "undefined", "error")}
        sides = Counter(entry["side"] for entry in results["unmatched"])
        counts |= {"not_run": verdicts.get("not_run", 0)}
        counts |= {f"unmatched_{side}": sides.get(side, 0) for side in ("left", "right")}
    except (KeyError, TypeError):
        return results
    return {**results, "counts": counts}
