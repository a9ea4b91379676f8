"""Which checks run, with which thresholds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pytest_msdump.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.facts.checks import ACTIVATIONS, CHECKS

__all__ = ["CheckSettings", "parse_settings"]

_SWITCHES = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """What a user set; everything else is `facts.checks`' default.

    Parameters
    ----------
    values : mapping of (str, str) to float
        Thresholds by check and parameter.
    switches : mapping of str to bool
        Checks that were turned on or off. A check is off until it has a threshold.
    """

    values: Mapping[tuple[str, str], float] = field(default_factory=dict)
    switches: Mapping[str, bool] = field(default_factory=dict)

    def is_asked_for(self, check: str) -> bool:
        """Whether the user turned a check on, or set something of it."""
        return self.switches.get(check) is True or any(name == check for name, _ in self.values)

    def parameters(self, check: str, op_type: str | None = None) -> Mapping[str, float] | None:
        """Return the parameters that a check runs with.

        Parameters
        ----------
        check : str
            An id of `facts.checks.CHECKS`.
        op_type : str, optional
            Whose output is checked; activations have parameters of their own.

        Returns
        -------
        mapping of str to float, or None
            ``None`` when the check is off, or has parameters and not one of them is set.
        """
        if self.switches.get(check) is False:
            return None
        fact = CHECKS[check]
        found = {name: value for name, value in fact.parameters.items() if value is not None}
        if fact.target == "activation":
            found |= ACTIVATIONS.get((op_type or "").lower(), {})
        found |= {name: value for (own, name), value in self.values.items() if own == check}
        return found if found or not fact.parameters else None


def parse_settings(texts: Iterable[str]) -> CheckSettings:
    """Read what was typed.

    Parameters
    ----------
    texts : iterable of str
        ``CHECK.PARAMETER=NUMBER``, ``CHECK=on`` or ``CHECK=off``; of two about one thing the later one holds.

    Raises
    ------
    UnknownNameError
        A check or a parameter that does not exist.
    ConfigError
        No number, or no assignment at all.

    Examples
    --------
    >>> settings = parse_settings(["weight_not_changed.rtol=1e-4", "tensor_all_zero=off"])
    >>> settings.parameters("weight_not_changed")["rtol"], settings.parameters("tensor_all_zero")
    (0.0001, None)
    """
    values: dict[tuple[str, str], float] = {}
    switches: dict[str, bool] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        check, _, parameter = name.partition(".")
        if not equals or not value:
            raise ConfigError(f"'{text}': write CHECK.PARAMETER=NUMBER, CHECK=on or CHECK=off")
        if check not in CHECKS:
            raise UnknownNameError(f"'{text}': there is no check '{check}'; {nearest(check, CHECKS)}")
        if parameter:
            values[check, parameter] = _threshold(text, check, parameter, value)
        else:
            switches[check] = _switch(text, check, value)
    return CheckSettings(values, switches)


def _threshold(text: str, check: str, parameter: str, value: str) -> float:
    known = CHECKS[check].parameters
    if parameter not in known:
        tail = nearest(parameter, known) if known else f"it has none; write {check}=off to leave it out"
        raise UnknownNameError(f"'{text}': {check} has no parameter '{parameter}'; {tail}")
    try:
        number = float({"true": "1", "false": "0"}.get(value.lower(), value))
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise ConfigError(f"'{text}': '{value}' is no number")
    return number


def _switch(text: str, check: str, value: str) -> bool:
    if value not in _SWITCHES:
        raise ConfigError(f"'{text}': write {check}=on, {check}=off or {check}.PARAMETER={value}")
    return _SWITCHES[value]
