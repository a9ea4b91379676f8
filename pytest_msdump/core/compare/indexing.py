"""Index a dump: choose its reader, list its tensors by name, and add what lies beside them. Opens no tensor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pytest_msdump.core import ports
from pytest_msdump.core.dumps.base import index_dump, reader
from pytest_msdump.core.dumps.manifest import graphs_of, labels_of, read_manifest, why_incomplete
from pytest_msdump.core.errors import IncompleteRecordingError
from pytest_msdump.core.model.dump import (
    JOURNAL_FILE,
    MANIFEST_FILE,
    Dump,
)
from pytest_msdump.core.storage.listings import names_kept
from pytest_msdump.core.storage.locations import RemotePath, storage
from pytest_msdump.core.text import Message, say

# The reader of one array, which is a whole dump without anything beside it.
_ARRAY_READER, _ARRAY = "npy-file", ".npy"

_RECORD = frozenset({Path(MANIFEST_FILE), Path(JOURNAL_FILE)})
# From the folder of one iteration, in the deepest tree that a framework writes, to what a recorder was given.
_LEVELS_ABOVE = 4


def index(root: Path, *, graph_files: Iterable[Path] = (), allow_incomplete: bool = False) -> Dump:
    """Index the dump at `root`, in execution order and with lines of the program as far as these are known."""
    kept = tuple(graph_files)
    if not kept and root.suffix == _ARRAY and not isinstance(root, RemotePath) and root.is_file():
        return reader(_ARRAY_READER).index(root)
    return _index(root, kept, allow_incomplete=allow_incomplete)


def _index(root: Path, graph_files: tuple[Path, ...], *, allow_incomplete: bool) -> Dump:
    """Index anything, in stages, each of which adds to the dump."""
    unfit = storage().list_below(root) if isinstance(root, RemotePath) else ()
    with names_kept():
        dump = _only_whole(_with_manifest(index_dump(root)), allow_incomplete=allow_incomplete)
        dump, request = _with_perturbation(dump), ports.IndexRequest(graph_files, allow_incomplete)
        for step in ports.steps("indexed"):
            # The reader is another one where only statistics were saved.
            if step.is_met({dump.reader}):
                dump = step.function(dump, request)
    if isinstance(root, RemotePath):
        storage().refuse_changed()
    return replace(dump, unexplained=(*dump.unexplained, *unfit)) if unfit else dump


def listed(path: Path) -> Path:
    """Return the same path; a remote one is listed, after which it knows whether it is a file or a folder."""
    if isinstance(path, RemotePath):
        storage().list_below(path)
    return path


def _with_manifest(dump: Dump) -> Dump:
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


def _with_perturbation(dump: Dump) -> Dump:
    """Say first of all that a run was perturbed, so that it is taken for no reference."""
    if not any(one is not None and one.perturbation for one in (dump.manifest, *dump.ranks.values())):
        return dump
    return replace(dump, notes=(say(Message("perturbed_run")), *dump.notes))


def _only_whole(dump: Dump, *, allow_incomplete: bool) -> Dump:
    """Refuse a dump that is part of a recording that has not ended; or say so in a note, if it is allowed."""
    why = dump.incomplete or _why_around(dump)
    if not why:
        return dump
    if not allow_incomplete:
        raise IncompleteRecordingError(
            f"{dump.root}: {why}; record it again, or take what there is of it with --msdump-allow-incomplete "
            "(msdump: --allow-incomplete; in Python: allow_incomplete=True)"
        )
    return replace(dump, incomplete=why, notes=(say(Message("note_incomplete", {"why": why})), *dump.notes))


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
