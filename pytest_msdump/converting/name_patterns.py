"""What a person says of foreign file names: where in them the operator, the slot and the time stand."""

from __future__ import annotations

import re
import warnings
from typing import NamedTuple

from pytest_msdump.errors import ConfigError, UnknownNameError, nearest

__all__ = ["Parts", "compiled", "parts_of"]

_FIELDS = {"op": r".+", "slot": r"[0-9]+", "time": r"[0-9]+", "any": r".*?"}
_FIELD = re.compile(r"\{(\w*)\}")
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
# Digits of a time since 1970 → what makes µs of it; 10 are seconds, 13 ms, 16 µs, 19 ns.
_SCALES = {10: 1_000_000, 13: 1_000, 16: 1}
_NANOSECOND_DIGITS = 19
_MOST_SLOT_DIGITS = 9


class Parts(NamedTuple):
    """What a name says: the operator with the letters of the grammar, its slot, the time in µs since 1970.

    `written` is how operator and slot stand there.
    """

    op: str
    slot: int
    time: int | None
    written: tuple[str, str]


def compiled(pattern: str) -> re.Pattern[str]:
    """Return the regular expression that a pattern is, or that a template stands for.

    Parameters
    ----------
    pattern : str
        A regular expression with the named groups ``op`` and, where names have them, ``slot`` and ``time``; or a
        template with ``{op}``, ``{slot}``, ``{time}`` and ``{any}`` between letters that stand for themselves. Both
        tell the whole name.

    Raises
    ------
    ConfigError
        No regular expression; no ``op``; a field or group that means nothing.

    Examples
    --------
    >>> compiled("{op}-{slot}.npy").fullmatch("conv-1-0.npy").groupdict()
    {'op': 'conv-1', 'slot': '0'}
    """
    is_template = "(?P<" not in pattern
    try:
        with warnings.catch_warnings():
            # What a later Python may read in another way is an expression still.
            warnings.simplefilter("ignore")
            expression = re.compile(_from_template(pattern) if is_template else pattern, re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(f"--pattern '{pattern}': is no regular expression: {error}") from error
    for name in expression.groupindex:
        if name not in _FIELDS:
            raise UnknownNameError(f"--pattern '{pattern}': unknown group '{name}'; {nearest(name, _FIELDS)}")
    if "op" not in expression.groupindex:
        raise ConfigError(f"--pattern '{pattern}': does not say where the operator stands; write {{op}}, or (?P<op>…)")
    return expression


def _from_template(template: str) -> str:
    parts, done, used = [], 0, set()
    for match in _FIELD.finditer(template):
        name = match[1]
        if name not in _FIELDS:
            raise UnknownNameError(f"--pattern '{template}': unknown field '{match[0]}'; {nearest(name, _FIELDS)}")
        if name in used:
            raise ConfigError(f"--pattern '{template}': has {match[0]} twice; write {{any}} for what does not matter")
        parts.append(re.escape(template[done : match.start()]))
        parts.append(_FIELDS[name] if name == "any" else f"(?P<{name}>{_FIELDS[name]})")
        used |= {name} - {"any"}
        done = match.end()
    return "".join([*parts, re.escape(template[done:])])


def parts_of(name: str, expression: re.Pattern[str]) -> Parts | None:
    """Read a file name; ``None`` where the pattern does not fit.

    Raises
    ------
    ConfigError
        A slot or a time that is none.
    """
    match = expression.fullmatch(name)
    if match is None:
        return None
    said = match.groupdict()
    slot = said.get("slot") or "0"
    if not (slot.isascii() and slot.isdigit() and len(slot) <= _MOST_SLOT_DIGITS):
        raise ConfigError(f"{name}: '{slot}' is no slot; it is a number from 0")
    op = _FOREIGN.sub("_", said["op"] or "")
    if not op:
        raise ConfigError(f"{name}: the pattern leaves no letter for the operator; let (?P<op>…) take one at least")
    time = _microseconds(said["time"], name) if said.get("time") else None
    return Parts(op, int(slot), time, (said["op"], slot))


def _microseconds(text: str, name: str) -> int:
    if text.isascii() and text.isdigit() and text[0] != "0":
        if len(text) in _SCALES:
            return int(text) * _SCALES[len(text)]
        if len(text) == _NANOSECOND_DIGITS:
            return int(text) // 1_000
    raise ConfigError(
        f"{name}: '{text}' is no time since 1970 of 10, 13, 16 or 19 digits; write {{any}} there, and files get the "
        "time at which they were written"
    )
