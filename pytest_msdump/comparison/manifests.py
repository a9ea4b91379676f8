"""Manifests beside a dump: whether it is whole, and whether two runs had the same inputs and weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pytest_msdump.dumps.manifest import graphs_of, labels_of, read_manifest, why_incomplete
from pytest_msdump.errors import IncompleteRecordingError
from pytest_msdump.model.dump import JOURNAL_FILE, MANIFEST_FILE, Dump
from pytest_msdump.storage.remote import RemotePath

__all__ = ["different_origins", "only_whole", "with_manifest"]

_RECORD = frozenset({Path(MANIFEST_FILE), Path(JOURNAL_FILE)})
# From the folder of one iteration, in the deepest tree that a framework writes, to what a recorder was given.
_LEVELS_ABOVE = 4

_SHOWN = 3
_SHOWN_DIGITS = 8


def with_manifest(dump: Dump) -> Dump:
    """Take labels and origins of a framework's own dump from the manifest beside it, if there is one."""
    if dump.manifest is not None or _RECORD.isdisjoint(dump.unexplained):
        return dump
    manifest, notes = read_manifest(dump.root)
    if manifest is None:
        return dump
    known = dict((*labels_of(manifest), *dump.labels))
    if "ms_version" in known:
        known.pop("framework", None)
    return replace(
        dump,
        unexplained=tuple(path for path in dump.unexplained if path not in _RECORD),
        labels=tuple(sorted(known.items())),
        notes=(*dump.notes, *notes),
        graphs=(*dump.graphs, *graphs_of(manifest)),
        manifest=replace(manifest, tensors={}, graph={}),
        incomplete=why_incomplete(manifest),
    )


def only_whole(dump: Dump, *, allow_incomplete: bool = False) -> Dump:
    """Refuse a dump that is part of a recording that has not ended; or say so in a note, if it is allowed."""
    why = dump.incomplete or _why_around(dump)
    if not why:
        return dump
    if not allow_incomplete:
        raise IncompleteRecordingError(
            f"{dump.root}: {why}; record it again, or take what there is of it with --msdump-allow-incomplete "
            "(msdump: --allow-incomplete; in Python: allow_incomplete=True)"
        )
    return replace(dump, incomplete=why, notes=(f"incomplete: {why}", *dump.notes))


def _why_around(dump: Dump) -> str:
    """Return why the manifests in folders below the root, or in those above it, say that a recording is not whole."""
    if dump.root.is_file():
        return ""
    below = {path.parent for path in dump.unexplained if path.name in (MANIFEST_FILE, JOURNAL_FILE)}
    folders = [dump.root / folder for folder in sorted(below)]
    if not isinstance(dump.root, RemotePath):
        folders += dump.root.absolute().parents[:_LEVELS_ABOVE]
    for folder in folders:
        manifest, _ = read_manifest(folder)
        why = "" if manifest is None else why_incomplete(manifest)
        if why:
            return f"{why}, in {folder}"
    return ""


def different_origins(left: Dump, right: Dump) -> tuple[str, ...]:
    """Return a sentence on inputs and one on weights, if the two runs had different ones.

    Both dumps need manifests. Names that only one side has are not compared, unless the sides have no name in common.
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
    """Return the part of a digest that is independent of the order of elements: frameworks arrange axes differently."""
    return digest.rpartition("/")[2]
