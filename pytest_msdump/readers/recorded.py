"""Tensors of a folder whose manifest tells what their names do not: true names, inputs, types, lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePosixPath

from pytest_msdump.model.manifest import MANIFEST_FILE, Manifest, TensorEntry
from pytest_msdump.model.source_lines import SourceFrame
from pytest_msdump.model.tensor import OpKey, TensorKey, TensorRef
from pytest_msdump.readers.filename import number

__all__ = ["labels_of", "told", "why_incomplete"]

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
