"""Limits as a user writes them: names made whole, and refusal of those that could never, or only ever, be met."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pytest_msdump.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.facts.metrics import METRICS, SHORT_FORMS
from pytest_msdump.text import bound_text

__all__ = ["Bounds", "checked_bounds", "checked_tolerance", "metric_id", "metric_name"]

# Metric → (fails beyond, warns beyond); either may be absent.
Bounds = Mapping[str, tuple[float | None, float | None]]


def metric_name(text: str, *, where: str = "") -> str:
    """Return the id of any metric, also of one that takes no limit.

    Raises
    ------
    UnknownNameError
        There is no such metric; the text names the nearest.
    """
    name = SHORT_FORMS.get(text, text)
    if name not in METRICS:
        place = f"{where}: " if where else ""
        raise UnknownNameError(f"{place}unknown metric '{text}'; {nearest(text, (*METRICS, *SHORT_FORMS))}")
    return name


def metric_id(text: str, *, where: str = "") -> str:
    """Return the metric's id for an id or a short form.

    Parameters
    ----------
    text : str
        E.g. ``"cosine"`` or ``"cosine_similarity"``.
    where : str, optional
        Who wrote it, for the error's text.

    Raises
    ------
    UnknownNameError
        There is no such metric; the text names the nearest.
    ConfigError
        The metric takes no limit.

    Examples
    --------
    >>> metric_id("max_rel")
    'max_relative_error'
    """
    name = metric_name(text, where=where)
    if METRICS[name].direction == "none":
        place = f"{where}: " if where else ""
        raise ConfigError(f"{place}{text} is only reported and takes no limit; remove it")
    return name


def checked_bounds(bounds: Bounds, *, where: str) -> dict[str, tuple[float | None, float | None]]:
    """Return the bounds under the metrics' ids.

    Raises
    ------
    UnknownNameError
        A metric that does not exist.
    ConfigError
        A bound that nothing or everything would meet, levels in the wrong order, one metric named twice.
    """
    checked: dict[str, tuple[float | None, float | None]] = {}
    for text, (fail, warn) in bounds.items():
        metric = metric_id(text, where=where)
        if metric in checked:
            raise ConfigError(f"{where}: {metric} is set twice, once by its short form; keep one of them")
        for bound in (fail, warn):
            _check_bound(metric, bound, where)
        _check_levels(metric, fail, warn, where)
        checked[metric] = (fail, warn)
    return checked


def checked_tolerance(name: str, value: float | None, *, where: str) -> None:
    """Refuse an `rtol` or `atol` that is no finite number, or negative.

    Raises
    ------
    ConfigError
        As said.
    """
    if value is not None and not (_is_number(value) and 0 <= value < math.inf):
        raise ConfigError(f"{where}: {name} = {value!r} is no tolerance; give a number from 0 on, e.g. 1e-3")


def _check_bound(metric: str, bound: float | None, where: str) -> None:
    if bound is None:
        return
    if not _is_number(bound):
        raise ConfigError(f"{where}: the limit of {metric} is {bound!r}; give a number")
    if METRICS[metric].direction == "high":
        met_by, allowed = _met_by(bound <= 1, bound > -1), "above -1, at most 1"
    else:
        met_by, allowed = _met_by(bound >= 0, bound < math.inf), "0 or more, and finite"
    if met_by:
        raise ConfigError(f"{where}: {metric} = {bound_text(bound)} is met by {met_by}; give a number {allowed}")


def _met_by(reachable: bool, selective: bool) -> str:
    """What is wrong with a bound, as the end of "is met by …"; empty when nothing is. NaN is not reachable."""
    if not reachable:
        return "no tensor that differs"
    return "" if selective else "every tensor"


def _check_levels(metric: str, fail: float | None, warn: float | None, where: str) -> None:
    if fail is None and warn is None:
        raise ConfigError(f"{where}: {metric} has neither a fail nor a warn limit; give one or remove it")
    if fail is None or warn is None:
        return
    if (warn < fail) if METRICS[metric].direction == "high" else (warn > fail):
        raise ConfigError(
            f"{where}: {metric} warns beyond {bound_text(warn)} but already fails beyond {bound_text(fail)}, "
            "so the warning would never be seen; swap the two or remove one"
        )


def _is_number(value: object) -> bool:
    """Whether a value that a user wrote is a number; bools are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
