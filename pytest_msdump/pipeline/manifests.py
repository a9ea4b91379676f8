"""What manifests make of a comparison: two runs that were given different numbers have nothing to agree about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_msdump.lazy_dataclass import replace
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.manifest import MANIFEST_FILE
from pytest_msdump.readers.manifest import read_manifest

__all__ = ["different_origins", "with_manifest"]

_SHOWN = 3
_SHOWN_DIGITS = 8


def with_manifest(dump: Dump) -> Dump:
    """Tell a run of a framework's own dump by the manifest that lies beside it, where there is one."""
    beside = Path(MANIFEST_FILE)
    if dump.manifest is not None or beside not in dump.unexplained:
        return dump
    manifest, notes = read_manifest(dump.root)
    if manifest is None:
        return replace(dump, notes=(*dump.notes, *notes))
    from pytest_msdump.readers.recorded import labels_of

    known = dict((*labels_of(manifest), *dump.labels))
    if "ms_version" in known:
        known.pop("framework", None)
    return replace(
        dump,
        unexplained=tuple(path for path in dump.unexplained if path != beside),
        labels=tuple(sorted(known.items())),
        notes=(*dump.notes, *notes),
        manifest=replace(manifest, tensors={}),
    )


def different_origins(left: Dump, right: Dump) -> tuple[str, ...]:
    """Say which inputs and weights two runs were given differently.

    Parameters
    ----------
    left, right : Dump
        With manifests; where one has none, nothing is said.

    Returns
    -------
    tuple of str
        A sentence on inputs and one on weights, each where there is something to say. Names that one side alone has
        are not compared, unless the sides have no name in common.
    """
    if left.manifest is None or right.manifest is None:
        return ()
    kinds = (
        ("inputs", left.manifest.inputs, right.manifest.inputs),
        ("weights", left.manifest.weights, right.manifest.weights),
    )
    return tuple(sentence for kind, ours, theirs in kinds if (sentence := _sentence(kind, ours, theirs)))


def _sentence(kind: str, ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    different = list(_different(ours, theirs))
    if not different:
        return ""
    shown = ", ".join(different[:_SHOWN])
    more = f" and {len(different) - _SHOWN} more" if len(different) > _SHOWN else ""
    return f"the two runs were given different {kind}, so what follows differs by them as well: {shown}{more}"


def _different(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[str]:
    common = [name for name in ours if name in theirs]
    for name in common:
        left, right = _values(ours[name]), _values(theirs[name])
        if left != right:
            yield f"{name} (left {left[:_SHOWN_DIGITS]}, right {right[:_SHOWN_DIGITS]})"
    if common or not ours or not theirs:
        return
    # Frameworks call one thing by different names: then the numbers are compared without them.
    left_only = sorted(set(map(_values, ours.values())) - set(map(_values, theirs.values())))
    if left_only:
        name = next(name for name, digest in ours.items() if _values(digest) == left_only[0])
        yield f"none of the right side's is the left's {name} ({left_only[0][:_SHOWN_DIGITS]})"


def _values(digest: str) -> str:
    """The half of a digest that is of the elements in any order: frameworks arrange axes differently."""
    return digest.rpartition("/")[2]
