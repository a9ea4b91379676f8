"""Suggestions that would write a mistake of the port into a suite: modules of one name that met another's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from pytest_msdump.causes.choose_partners import Fit, Suggestion
from pytest_msdump.core.matching.kinds import kind_of, spelling_of_name
from pytest_msdump.core.matching.leaving import Modules
from pytest_msdump.core.model.tensor import TensorRef
from pytest_msdump.matching.scopes import Path, typed_path


def mixed_up(
    found: Mapping[int, Suggestion],
    agrees: Callable[[Fit], bool],
    refs: tuple[Sequence[TensorRef], Sequence[TensorRef]],
    modules: Modules,
) -> set[int]:
    """Return the right tensors whose clear suggestion is of another module by name, while values differ.

    One of the two modules is there on the other side, too, and no other kind of module. Further calls of such a right
    module wait, whatever they hold: once the port is mended, all of them pair by name. `modules` are the left ones.
    """
    left, right = refs
    kinds = _kinds(left, modules), _kinds(right)
    called = {number: _spelled(_path(right[number])) for number in found}
    around = {number: _around(modules.path_around(left[one.fits[0].left])) for number, one in found.items()}
    wrong = {
        number
        for number, one in found.items()
        if one.is_clear
        and not agrees(one.fits[0])
        and called[number] not in around[number]
        and (
            _has(kinds[0], called[number], right[number])
            or _has(kinds[1], next(reversed(around[number]), ""), left[one.fits[0].left])
        )
    }
    waiting = {called[number] for number in wrong}
    return {
        number
        for number, one in found.items()
        if number in wrong or (one.is_clear and called[number] in waiting.intersection(around[number]))
    }


def _has(kinds: Mapping[str, set[str]], name: str, ref: TensorRef) -> bool:
    """Whether a side has a module of that name, and of the kind of a tensor's own, as far as both are known."""
    return bool(kinds.get(name, set()) & {kind_of(ref.key.op.op_type), ""})


def _kinds(refs: Sequence[TensorRef], modules: Modules | None = None) -> Mapping[str, set[str]]:
    """Return the kinds of a side's modules by name, with ``""`` where that is unknown."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for ref in refs:
        found[_spelled(_path(ref))].add(kind_of(ref.key.op.op_type))
    for text in modules.paths() if modules else ():
        found.setdefault(_spelled(typed_path(text) or ()), {""})
    return {name: kinds for name, kinds in found.items() if name}


def _path(ref: TensorRef) -> Path:
    return typed_path(ref.key.op.label) or ()


def _around(path: Path) -> list[str]:
    return [_spelled(path[:depth]) for depth in range(1, len(path) + 1)]


def _spelled(path: Path) -> str:
    """Write a path as names with underscores do, in the spelling that frameworks share."""
    return spelling_of_name("_".join(path))
