"""Manifests beside a dump: whether it is whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_msdump.dumps.manifest import graphs_of, labels_of, read_manifest, why_incomplete
from pytest_msdump.errors import IncompleteRecordingError
from pytest_msdump.model.dump import JOURNAL_FILE, MANIFEST_FILE, Dump
from pytest_msdump.storage.remote import RemotePath

__all__ = ["only_whole", "with_manifest"]

_RECORD = frozenset({Path(MANIFEST_FILE), Path(JOURNAL_FILE)})
# From the folder of one iteration, in the deepest tree that a framework writes, to what a recorder was given.
_LEVELS_ABOVE = 4


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
