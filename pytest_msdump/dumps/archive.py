"""The tensors of a recording in one archive, ``tensors.npz``, in the place of a file each.

Its members are npy files, named as the files of a recording are; a member of which the manifest has statistics is the
sketch of a tensor that was not saved. Of tensors with equal sketches one has a member. `numpy.load` opens it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pytest_msdump.dumps.file_names import parse_reference
from pytest_msdump.dumps.listing import Folder
from pytest_msdump.dumps.npz import NpzReader
from pytest_msdump.dumps.stored_file import opened
from pytest_msdump.errors import TensorFileError
from pytest_msdump.model.dump import ARCHIVE_FILE, TensorEntry
from pytest_msdump.model.statistics import Statistics
from pytest_msdump.model.tensor import UNSEEN, SavedSketch, TensorRef, TensorSpec, TensorView

_SUFFIX = ".npy"
_NPZ = NpzReader()


def open_member(ref: TensorRef) -> TensorView:
    """Open a tensor lazily; TensorFileError where it is damaged, or not there any more."""
    path, part = ref.source.path, ref.source.part or 0
    arrays = _NPZ.arrays(path)
    parsed = parse_reference(Path(arrays[part].name).name + _SUFFIX) if part < len(arrays) else None
    if parsed is None or parsed.timestamp != ref.source.timestamp:
        raise TensorFileError(f"{path}: {ref.key.address} was in it when it was indexed; run again")
    if arrays[part].problem:
        raise TensorFileError(f"{path}: {arrays[part].name}: {arrays[part].problem}")
    with opened(path) as file:
        return _NPZ.view_of(file, replace(arrays[part], spec=ref.spec))


def folders_in(root: Path, entries: Mapping[str, TensorEntry]) -> tuple[dict[Folder, Mapping[str, int]], str]:
    """Return the tensors of the archive in a folder, as folders, with their members' numbers; and why there are none.

    `entries` are what the manifest says of them: some have the member of another one.
    """
    path = root / ARCHIVE_FILE
    try:
        arrays = _NPZ.arrays(path)
    except TensorFileError as error:
        return {}, str(error)
    members = {array.name + _SUFFIX: part for part, array in enumerate(arrays)}
    shared = {file: members[entry.member] for file, entry in entries.items() if entry.member in members}
    held: defaultdict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
    for file, part in {**shared, **members}.items():
        *parts, name = file.split("/")
        held[tuple(parts)][name] = part
    return {Folder(parts, tuple(sorted(names)), ()): names for parts, names in sorted(held.items())}, ""


def as_sketched(ref: TensorRef, entry: TensorEntry) -> TensorRef:
    """Return a tensor of which the archive has the sketch and the manifest the statistics."""
    if entry.norm is None:
        return ref
    spec = TensorSpec(entry.dtype, entry.shape)
    source = ref.source
    if entry.member is not None:
        parsed = parse_reference(Path(entry.member).name)
        source = replace(source, timestamp=parsed.timestamp if parsed else None)
    member = replace(ref, spec=TensorSpec(), source=source)
    return replace(
        ref,
        spec=spec,
        reader=UNSEEN,
        statistics=Statistics(entry.statistics, digits=None),
        sketch=SavedSketch(member, entry.norm),
    )
