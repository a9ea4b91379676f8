"""Arrays on disk into dump files: one array, or a folder of them; what one array lacks does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from pathlib import Path

from pytest_msdump.converting.array_files import remove_leftovers
from pytest_msdump.converting.dump_files import DumpTensor, write_dump
from pytest_msdump.converting.dump_header import data_type_number, memory_format_number
from pytest_msdump.converting.dump_names import ArrayName, DumpPlan, checked, fitting_names, plan_dumps
from pytest_msdump.errors import ConfigError, MsdumpError, TensorFileError, TensorShapeError
from pytest_msdump.facts.memory_formats import MEMORY_FORMATS
from pytest_msdump.memory_formats.blocks import format_name
from pytest_msdump.memory_formats.stored import is_device_format, logical, target
from pytest_msdump.model.manifest import TensorEntry
from pytest_msdump.model.tensor import TensorSpec, TensorView
from pytest_msdump.readers.manifest import read_manifest
from pytest_msdump.readers.npy import open_npy
from pytest_msdump.readers.sidefiles import MAPPING, read_mapping

__all__ = ["NOTHING_SAID", "Outcome", "Said", "arrays_to_dumps", "listed"]


@dataclass(frozen=True, slots=True)
class Said:
    """What a caller says of arrays; it wins over what their names say.

    Parameters
    ----------
    dtype : str, optional
        What the elements are where the npy type is only how they are stored (bfloat16, float8 kinds, int4 …).
    memory_format : str, optional
        What the axes are; nothing is moved. ``ND`` where nobody says.
    shape : tuple of int, optional
        The logical shape of arrays in a padded format, for the header's `original_shape`.
    groups : int
        Of a convolution, for weights.
    """

    dtype: str | None = None
    memory_format: str | None = None
    shape: tuple[int, ...] | None = None
    groups: int = 1


NOTHING_SAID = Said()


@dataclass(slots=True)
class Outcome:
    """Files that were written; what was not, each with its reason; names that are of another kind."""

    written: list[Path] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    others: Sequence[str] = ()

    def take(self, name: str, write: Callable[[], Iterable[Path]]) -> None:
        """Write what one name stands for, and keep what becomes of it."""
        try:
            self.written.extend(write())
        except MsdumpError as error:
            self.failed.append((name, str(error)))


def listed(source: Path) -> Mapping[str, Path]:
    """Return the files directly in a folder, or one file, by the names that they had before they were shortened.

    Raises
    ------
    ConfigError
        There is nothing.
    """
    if source.is_file():
        return {_originals(source.parent).get(source.name, source.name): source}
    try:
        names = sorted(path.name for path in source.iterdir() if path.is_file())
    except OSError as error:
        raise ConfigError(f"{source}: no such file or folder: {error.strerror or error}") from error
    originals = _originals(source)
    return {originals.get(name, name): source / name for name in names if name != MAPPING}


def _originals(folder: Path) -> Mapping[str, str]:
    mapping = folder / MAPPING
    return read_mapping(mapping)[0] if mapping.is_file() else {}


def arrays_to_dumps(source: Path, out: Path, *, kind: str | None, said: Said = NOTHING_SAID) -> Outcome:
    """Write the dump files that arrays become.

    Parameters
    ----------
    source : Path
        A ``.npy`` file, or a folder with such files in it; folders below it are not looked into.
    out : Path
        A folder; made when it is not there. Files of the same names are replaced.
    kind : str, optional
        One of `dump_names.KINDS`; ``None`` when names are to tell.
    said : Said
        What the arrays are.

    Returns
    -------
    Outcome
        A dump file of which one array cannot be read is not written at all.

    Raises
    ------
    ConfigError
        No name fits, a data type or memory format does not exist, or `out` cannot be made.
    """
    if said.dtype is not None:
        data_type_number(said.dtype)
    if said.memory_format is not None:
        memory_format_number(said.memory_format)
    plans, others = plan_dumps(listed(source), kind)
    if not plans:
        found = f"it has {len(others)} files of other names, e.g. {others[0]}" if others else "it has no file"
        raise ConfigError(
            f"{source}: no array whose name tells its dump file, {fitting_names(kind)}"
            + (f"; {found}" if source.is_dir() else "; see msdump rename")
        )
    made(out)
    manifest, _ = read_manifest(source if source.is_dir() else source.parent)
    recorded = manifest.tensors if manifest is not None else {}
    outcome = Outcome(others=others)
    for plan in plans:
        outcome.take(plan.name, partial(_write, plan, out, said, recorded))
    return outcome


def made(folder: Path) -> None:
    """Make a folder that is written to, and clear it of what a killed run left half-written.

    Raises
    ------
    ConfigError
        It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the folder {folder} cannot be made: {error.strerror or error}") from error
    remove_leftovers(folder)


def _write(plan: DumpPlan, out: Path, said: Said, recorded: Mapping[str, TensorEntry]) -> Sequence[Path]:
    first, array = checked(plan).arrays[0]
    entry = recorded.get(array.name)
    with ExitStack() as opened:
        tensors = []
        for parsed, path in plan.arrays:
            tensor = _tensor(parsed, path, said, recorded.get(path.name))
            opened.callback(tensor.view.close)
            tensors.append(tensor)
        op_name = entry.op if entry else first.op
        return [write_dump(out / plan.name, tensors, op_name=op_name, dump_time=first.timestamp)]


def _tensor(parsed: ArrayName, path: Path, said: Said, entry: TensorEntry | None) -> DumpTensor:
    dtype = said.dtype or parsed.spec.dtype or (entry.dtype if entry else None)
    name = said.memory_format or parsed.spec.memory_format or "ND"
    view = _open(path, dtype, name)
    try:
        return DumpTensor(
            view=view,
            io=parsed.io,
            dtype=dtype or view.dtype,
            memory_format=name,
            original_shape=_original_shape(view, name, said),
            groups=said.groups,
        )
    except BaseException:
        view.close()
        raise


def _open(path: Path, dtype: str | None, memory_format: str) -> TensorView:
    """Open an array as what it is said to be; where it is stored as another type of number, as that."""
    try:
        return open_npy(path, TensorSpec(dtype=dtype, memory_format=memory_format))
    except TensorFileError:
        if dtype is None:
            raise
        return open_npy(path, TensorSpec(memory_format=memory_format))


def _original_shape(view: TensorView, name: str, said: Said) -> tuple[int, ...] | None:
    """Return the logical shape that was given, when the stored one can hold it."""
    known, where = format_name(name), f"{name} of shape {view.shape}"
    row = MEMORY_FORMATS.get(known or "")
    if known is None or row is None or not is_device_format(known):
        if said.shape is not None and prod(said.shape) != view.size:
            raise TensorShapeError(f"{where} is no tensor of shape {said.shape}: it has {view.size} elements")
        return said.shape
    if "..." not in row.stored and len(row.stored) != len(view.shape):
        raise TensorShapeError(
            f"{where}: {known} has {len(row.stored)} stored axes; name what the axes of the array are, or nothing"
        )
    if said.shape is not None and said.groups == 1:
        spec = replace(view.spec, logical_shape=said.shape)
        shape, letters = target(spec, rule_format=None, rule_shape=None)
        logical(view, logical_shape=shape, logical_format=letters)
    return said.shape
