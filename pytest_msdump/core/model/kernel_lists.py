"""Which operators an entry of a `kernels` list names.

References
----------
MindSpore 2.10: ``name-regex(RE)`` matches whole names; an entry with ``/`` or ``-op`` is a full name; any other is
a type, found in the last part of a name whatever its case. Spaces and quotes are taken out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from pytest_msdump.core.model.tensor import mangle

REGEX = re.compile(r"name-regex\((.*)\)", re.DOTALL)
OF_FULL_NAMES = ("/", "-op")

_COUNTER = re.compile(r"-op[0-9]+$")
_REPEATED = re.compile(r"[*+{?]")
# A list beside a dump is not trusted: an expression that could take for ever is not tried.
_MOST_REPEATS = 3
_REPEATED_GROUP = re.compile(r"\)[*+{?]")


def chosen(entry: str, names: Iterable[str]) -> list[str]:
    """Return the full names that an entry of a `kernels` list names; re.error where it is no regular expression."""
    plain = _plain(entry)
    match = REGEX.fullmatch(plain)
    if match:
        pattern = re.compile(match[1])
        return [name for name in names if pattern.fullmatch(name)]
    if any(part in plain for part in OF_FULL_NAMES):
        return [name for name in names if name == plain]
    return [name for name in names if plain.lower() in name.rsplit("/", 1)[-1].lower()]


def names_operator(entry: str, *, name: str, op_type: str | None, is_true_name: bool) -> bool | None:
    """Return whether an entry of an untrusted list names an operator; ``None`` where its name does not say.

    `name` is the operator's true name, as the framework writes it, or (not `is_true_name`) the one in its files.
    Numbers of full names are ignored: those of gradients differ between graphs and files.

    >>> names_operator("ReLU", name="Default_relu-ReLU_ReLU-op0", op_type="ReLU", is_true_name=False)
    True
    >>> names_operator("name-regex(Default/.+)", name="Default_ReLU-op0", op_type="ReLU", is_true_name=False) is None
    True
    """
    plain = _plain(entry)
    match = REGEX.fullmatch(plain)
    if match:
        pattern = _pattern(match[1])
        return None if pattern is None or not is_true_name else pattern.fullmatch(name) is not None
    if any(part in plain for part in OF_FULL_NAMES):
        ours, theirs = _COUNTER.sub("", name), _COUNTER.sub("", plain)
        return ours == theirs if is_true_name else ours == mangle(theirs)
    if op_type is None and not is_true_name:
        return None
    last = name.rsplit("/", 1)[-1] if is_true_name else op_type or ""
    return plain.lower() in last.lower() or (op_type is not None and plain.lower() in op_type.lower())


def _plain(entry: str) -> str:
    return entry.replace(" ", "").replace('"', "").replace("'", "")


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str] | None:
    """Compile an expression; ``None`` for one that cannot be read, or that could take long."""
    if len(_REPEATED.findall(text)) > _MOST_REPEATS or _REPEATED_GROUP.search(text):
        return None
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return None
