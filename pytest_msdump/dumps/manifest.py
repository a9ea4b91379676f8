"""Reads ``msdump.json`` and the journal of a recording that has not ended.

Neither is more trusted than the dump: bounded, every value checked, and never an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_msdump.dtypes import canonical
from pytest_msdump.dumps.filename import number
from pytest_msdump.dumps.sidefiles import read_text
from pytest_msdump.model.dump import JOURNAL_FILE, MANIFEST_FILE, SCHEMA_VERSION, Manifest, TensorEntry
from pytest_msdump.model.tensor import OpKey, SourceFrame, TensorKey, TensorRef
from pytest_msdump.storage.listings import is_there

__all__ = ["MAX_BYTES", "labels_of", "parse_manifest", "read_manifest", "told", "why_incomplete"]

MAX_BYTES = 2**28
_MAX_LABEL = 200
_MAX_NAME = 2**12
_MAX_NAMED = 2**20
_MAX_ARGUMENTS = 2**10
_MAX_SLOT = 10**9
_LABELS = ("framework", "version", "device", "dtype_policy", "time", "key")
_IO = ("input", "output")


def read_manifest(root: Path) -> tuple[Manifest | None, tuple[str, ...]]:
    """Read the manifest of a dump.

    Parameters
    ----------
    root : Path
        The dump's folder.

    Returns
    -------
    Manifest or None
        ``None`` where there is neither a manifest nor a journal. One that cannot be read, and a journal alone, give one
        that is not complete.
    tuple of str
        Sentences about what could not be read.
    """
    path, journal = root / MANIFEST_FILE, root / JOURNAL_FILE
    manifest, notes = _not_read()
    if is_there(path):
        text, note = read_text(path, MAX_BYTES)
        manifest, notes = _not_read(f"{MANIFEST_FILE} {note}") if note else parse_manifest(text)
    elif not is_there(journal):
        return None, ()
    if manifest.complete or not is_there(journal):
        return manifest, notes
    text, note = read_text(journal, MAX_BYTES)
    tensors, wrong = _journalled(text)
    if wrong and not note:
        note = f"has {wrong} {'line' if wrong == 1 else 'lines'} that cannot be read: left out"
    manifest = replace(manifest, tensors={**tensors, **manifest.tensors})
    return manifest, (*notes, f"{JOURNAL_FILE} {note}") if note else notes


def _not_read(*notes: str) -> tuple[Manifest, tuple[str, ...]]:
    """What a manifest says that cannot be read: not that the dump is whole."""
    return Manifest(complete=False), notes


def parse_manifest(text: str) -> tuple[Manifest, tuple[str, ...]]:
    """Read the text of a manifest; see `read_manifest`."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return _not_read(f"{MANIFEST_FILE} is not JSON, so names and types are told by file names alone")
    if not isinstance(values, dict):
        return _not_read(f"{MANIFEST_FILE} is not a JSON object, so names and types are told by file names alone")
    notes: list[str] = []
    version = values.get("schema_version")
    if version != SCHEMA_VERSION:
        shown = version if isinstance(version, int) and 0 <= version < 10**6 else "unknown"
        notes.append(
            f"{MANIFEST_FILE} has schema_version {shown}, known is {SCHEMA_VERSION}: read as far as understood"
        )
    tensors, wrong = _tensors(values.get("tensors"))
    if wrong:
        notes.append(
            f"{MANIFEST_FILE} has {wrong} {'entry' if wrong == 1 else 'entries'} that cannot be meant: left out"
        )
    command = values.get("command")
    labels: dict[str, Any] = {name: _text(values.get(name), _MAX_LABEL) or "" for name in _LABELS}
    manifest = Manifest(
        **labels,
        seeds={name: seed for name, seed in _named(values.get("seeds")).items() if type(seed) is int},
        inputs=_texts(values.get("inputs")),
        weights=_texts(values.get("weights")),
        command=tuple(map(str, command[:_MAX_ARGUMENTS])) if isinstance(command, list) else (),
        # Manifests of the first releases have no such key.
        complete=values.get("complete", True) is True,
        tensors=tensors,
    )
    return manifest, tuple(notes)


def _journalled(text: str) -> tuple[dict[str, TensorEntry], int]:
    """The entries of a journal, and the number of its lines that are none; a process that was killed cuts the last."""
    entries: dict[str, TensorEntry] = {}
    wrong = 0
    for line in text.splitlines():
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            said = None
        entry = _entry(said)
        file = said.get("file") if isinstance(said, dict) else None
        if entry is None or not isinstance(file, str):
            wrong += 1
        else:
            entries[file] = entry
    return entries, wrong


def _tensors(value: object) -> tuple[dict[str, TensorEntry], int]:
    """The entries that can be meant, and the number of others."""
    named = _named(value)
    entries = {name: entry for name, said in named.items() if (entry := _entry(said)) is not None}
    return entries, len(named) - len(entries)


def _entry(said: object) -> TensorEntry | None:
    if not isinstance(said, dict):
        return None
    op, slot, io = _text(said.get("op"), _MAX_NAME), said.get("slot", 0), said.get("io", "output")
    if not op or io not in _IO or type(slot) is not int or not 0 <= slot < _MAX_SLOT:
        return None
    dtype = _text(said.get("dtype"), _MAX_LABEL)
    return TensorEntry(
        op=op,
        io=io,
        slot=slot,
        dtype=(canonical(dtype) or dtype) if dtype else None,
        op_type=_text(said.get("op_type"), _MAX_LABEL),
        line=_text(said.get("line"), _MAX_NAME),
    )


def _named(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) and len(value) <= _MAX_NAMED else {}


def _texts(value: object) -> Mapping[str, str]:
    return {name: text for name, text in _named(value).items() if isinstance(text, str) and len(text) <= _MAX_LABEL}


def _text(value: object, longest: int) -> str | None:
    """A text that is not empty and not too long."""
    return value if isinstance(value, str) and 0 < len(value) <= longest else None


# -- Tensors of a folder whose manifest tells what their names do not ------------------------------------------------


_INPUT = "_input"


def told(ref: TensorRef, entry: TensorEntry | None) -> TensorRef:
    """Return a tensor, that its file's name told, as the manifest's entry has it.

    Parameters
    ----------
    ref : TensorRef
        Its operator's name is the file's.
    entry : TensorEntry, optional
        ``None`` where the manifest does not speak of the file.
    """
    if entry is None:
        return ref
    name = ref.key.op.name.removesuffix(_INPUT) if entry.io == "input" else ref.key.op.name
    op = OpKey(name or ref.key.op.name, ref.key.op.at, op_type=entry.op_type, true_name=entry.op)
    key = TensorKey(op, entry.io, entry.slot)
    return replace(ref, key=key, spec=replace(ref.spec, dtype=entry.dtype), line=_line(entry.line))


def labels_of(manifest: Manifest) -> tuple[tuple[str, str], ...]:
    """Return what headers say of the run."""
    framework = f"{manifest.framework} {manifest.version}".strip()
    known = (("framework", framework), ("device_target", manifest.device), ("dtype_policy", manifest.dtype_policy))
    return tuple(sorted((name, value) for name, value in known if value))


def why_incomplete(manifest: Manifest, files: Iterable[str] | None = None) -> str:
    """Return what a whole recording would have and this one has not; empty when it is whole.

    Parameters
    ----------
    manifest : Manifest
        Of the dump.
    files : iterable of str, optional
        Tensor files that are there, as the manifest names them; not given, they are not looked at.
    """
    if not manifest.complete:
        return f"the recording has not ended, or was broken off ({MANIFEST_FILE} does not say that it is complete)"
    absent = sorted(manifest.tensors.keys() - set(files), key=PurePosixPath) if files is not None else []
    if absent:
        count = "1 file that is" if len(absent) == 1 else f"{len(absent)} files that are"
        return f"{MANIFEST_FILE} names {count} not there, e.g. {absent[0]}"
    return ""


def _line(text: str | None) -> SourceFrame | None:
    file, _, line = (text or "").rpartition(":")
    place = number(line)
    return SourceFrame(file, place) if file and place and place < 2**31 else None
