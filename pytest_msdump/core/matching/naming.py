"""Under which name people are shown an operator: that of its module, where its own is a number that was given out.

An exporter calls operators by what they do, and counts: ``node_linear_3``, ``add_2``. Such a number changes with every
operator before it. What lasts, and what a program's author knows, is the module that the operator leaves or is inside
of. Its address stays as the exporter wrote it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytest_msdump.core.model.dump import PARAMETER
from pytest_msdump.core.model.tensor import module_of

if TYPE_CHECKING:
    from pytest_msdump.core.model.dump import Dump
    from pytest_msdump.core.model.tensor import Pair, TensorKey

# What PyTorch's exporter calls a node that has no name.
_COUNTED = re.compile(r"node_\w+")
# What older exporters do, and ONNX itself where nothing is named: ``MatMul_81``, ``onnx::Add_12``, ``173``.
_COUNTED_IN_ONNX = re.compile(r"(?:onnx::)?(?:[A-Z][A-Za-z0-9]*_)?[0-9]+")
# How each name of a trace looks; `Modules.is_trace` says whether it is one.
_TRACED = re.compile(r"[a-z]\w*?(?:_[0-9]+)*")
_NUMBER = re.compile(r"(?:_[0-9]+)+$")


class KnownModules(Protocol):
    """What is known of the modules of one side: `leaving.Modules`."""

    @property
    def paths_of(self) -> Mapping[TensorKey, Sequence[str]]:
        """Of each tensor the paths of the modules that it leaves."""

    @property
    def is_trace(self) -> bool:
        """Whether the names of operators say what each does, and a number."""


class _Named(NamedTuple):
    """The module of an operator; `is_inside` of one that does not leave it, as far as that is known."""

    module: str
    is_inside: bool


def shown_names(left: Dump, pairs: Iterable[Pair], modules: KnownModules) -> Mapping[str, str]:
    """Return by its own name how each operator of the left is shown; none of those that have names to be shown.

    No two operators get the same one: ``blocks.0.down`` leaves that module, ``blocks.0 (Gelu)`` is inside of that one,
    and ``blocks.0 (MatMul 2)`` the second of its kind there.
    """
    kinds = _kinds(left)
    counted = _counted(left, kinds, modules)
    if not counted:
        return {}
    scopes = {one.name: one.scope for _, graph in left.graphs for one in graph.operators if one.scope}
    left_modules: dict[str, str] = {}
    for key, paths in modules.paths_of.items():
        if key.op.label in counted:
            # A name without modules is read as one itself.
            others = (path for path in paths if path not in kinds)
            left_modules[key.op.label] = max((left_modules.get(key.op.label, ""), *others), key=_depth)
    partners = _partners(pairs, counted, scopes)
    found = {
        label: named
        for label in counted
        if (named := _named(left_modules.get(label), partners.get(label), scopes.get(label))) is not None
    }
    several = Counter(one.module for one in found.values() if not one.is_inside)
    taken: Counter[str] = Counter()
    shown: dict[str, str] = {}
    for label, (module, is_inside) in found.items():
        name = module
        if is_inside or several[module] > 1:
            kind = kinds[label] or _NUMBER.sub("", label)
            taken[name := f"{module} ({kind})"] += 1
            name = name if taken[name] == 1 else f"{module} ({kind} {taken[name]})"
        if name not in kinds:
            shown[label] = name
    return shown


def _kinds(left: Dump) -> dict[str, str]:
    """Return the types of all operators by name, in execution order; empty where a type is not known."""
    kinds = {one.name: one.op_type for _, graph in left.graphs for one in graph.operators}
    for ref in left.refs:
        op = ref.key.op
        kinds[op.label] = kinds.get(op.label) or op.op_type or ""
    return kinds


def _counted(left: Dump, kinds: Mapping[str, str], modules: KnownModules) -> Sequence[str]:
    """Return the names that say no more than what an operator does, and a number; in execution order."""
    is_onnx = left.manifest is not None and left.manifest.framework.startswith("onnx")
    patterns = (_COUNTED, _COUNTED_IN_ONNX) if is_onnx else (_COUNTED,)
    found = [name for name in kinds if any(pattern.fullmatch(name) for pattern in patterns)]
    if not found and all(map(_TRACED.fullmatch, kinds)) and modules.is_trace:
        return [*kinds]
    return [name for name in found if kinds[name] != PARAMETER]


def _partners(pairs: Iterable[Pair], counted: Container[str], scopes: Mapping[str, str]) -> Mapping[str, str]:
    """Return the modules of the right that counted operators of the left meet: of several the innermost one."""
    found: dict[str, list[tuple[bool, bool, int, str]]] = {}
    for pair in pairs:
        label, other = pair.left.key.op.label, pair.right.key.op.label
        is_number = other == label or _COUNTED.fullmatch(other) or _COUNTED_IN_ONNX.fullmatch(other)
        if label in counted and not is_number and pair.left.key.io == "output":
            is_module = bool(module_of(pair.how, pair.by))
            found.setdefault(label, []).append((other == scopes.get(label), is_module, _depth(other), other))
    return {label: max(others)[-1] for label, others in found.items()}


def _named(left: str | None, partner: str | None, scope: str | None) -> _Named | None:
    """Choose from the module that an operator leaves, the one that it meets, and the one around it."""
    if left:
        return _Named(left, is_inside=False)
    if partner and (not scope or ("/" not in partner and _depth(partner) >= _depth(scope))):
        return _Named(partner, is_inside=False)
    return _Named(scope, is_inside=True) if scope else None


def _depth(path: str) -> int:
    return len(path.split(".")) if path else 0
