"""``[[msdump.rule]]`` and ``[[msdump.known_drift]]``: limits with their conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_msdump.errors import ConfigError
from pytest_msdump.facts.metrics import METRICS, SHORT_FORMS
from pytest_msdump.judging.policy import KnownDrift, Rule
from pytest_msdump.suite.keys import Reader, choice, date, number, read_table, require, shown, text, texts

__all__ = ["known_drift", "rule"]


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
