"""One file of a dump becomes files of arrays. What is wrong with one tensor stops no other."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from pytest_msdump.convert.array_files import whole_file, write_npz, write_view
from pytest_msdump.convert.file_names import SUFFIXES, short_name
from pytest_msdump.convert.formats import Relabelled, brought
from pytest_msdump.convert.sources import SourceFile, WantedTensor
from pytest_msdump.dumps.ascend_file import RAW_WORDS, raw_bytes, read_header
from pytest_msdump.dumps.ascend_header import RawPart
from pytest_msdump.dumps.file_names import parse_ascend, parse_opdebug
from pytest_msdump.dumps.opdebug import read_overflow_file
from pytest_msdump.dumps.sidefiles import MAPPING, read_mapping
from pytest_msdump.errors import MsdumpError, TensorFileError
from pytest_msdump.escape import terminal_text
from pytest_msdump.layouts.blocks import format_name
from pytest_msdump.layouts.converters import Converters, load_converters
from pytest_msdump.model.tensor import TensorRef, TensorView
from pytest_msdump.storage.files import in_utf8

__all__ = ["Outcome", "Wishes", "convert_file", "write_failed_list", "write_mappings"]

Open = Callable[[TensorRef], TensorView]


@dataclass(frozen=True)
class Wishes:
    """What is to become of every tensor.

    Parameters
    ----------
    out : Path
        Folder for the files.
    to : str
        Kind of file, a key of `file_names.SUFFIXES`.
    memory_format : str, optional
        As the tables spell it; as it is stored by default.
    from_format : str, optional
        What the tensors are in, where their files do not tell or are wrong.
    shape : tuple of int, optional
        Without padding, in the order of `memory_format`.
    code : Path, optional
        Folder of a user's conversions, which the command line named.
    protected : frozenset of (int, int)
        Device and inode of files that may not be replaced: the sources.
    """

    out: Path
    to: str = "npy"
    memory_format: str | None = None
    from_format: str | None = None
    shape: tuple[int, ...] | None = None
    code: Path | None = None
    protected: frozenset[tuple[int, int]] = frozenset()


@dataclass
class Outcome:
    """What became of one file.

    Parameters
    ----------
    path : Path
        The source.
    written : list of Path
        The files made of it.
    failures : list of (str, str)
        ``output:0`` and the like, empty for the whole file; and the reason.
    names : list of (Path, str, str)
        Folder, short name, and the name that was too long for the file system.
    opened : int
        How many tensors could be opened; without one it is the file that is bad.
    """

    path: Path
    written: list[Path] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    names: list[tuple[Path, str, str]] = field(default_factory=list)
    opened: int = 0


def convert_file(source: SourceFile, *, wishes: Wishes, open_view: Open) -> Outcome:
    """Convert one file.

    Parameters
    ----------
    source : SourceFile
        Which.
    wishes : Wishes
        What to make of it.
    open_view : callable
        Opens a tensor in its stored axes.
    """
    outcome = Outcome(source.path)
    try:
        folder = wishes.out / source.folder
        folder.mkdir(parents=True, exist_ok=True)
        if source.is_overflow:
            _overflow(source, outcome, wishes)
        elif wishes.to == "npz":
            _archive(source, outcome, wishes, open_view)
        else:
            for tensor in source.tensors:
                _tensor(source, tensor, outcome, wishes, open_view)
        if source.with_untyped and wishes.memory_format is None and parse_ascend(source.name) is not None:
            _untyped(source, outcome, wishes)
    except (MsdumpError, OSError, MemoryError) as error:
        outcome.failures.append(("", _reason(error, source.path)))
    return outcome


def _reason(error: BaseException, path: Path) -> str:
    """Return one line without the file's path, which stands above it."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text.removeprefix(f"{path}: ")


def _target(source: SourceFile, name: str, outcome: Outcome, wishes: Wishes) -> Path:
    """Return the path of a target, by its short name where it is too long; never a source's."""
    folder = wishes.out / source.folder
    short = short_name(name)
    if short is not None:
        outcome.names.append((folder, short, name))
    path = folder / (short or name)
    try:
        there = path.stat()
    except OSError:
        return path
    if (there.st_dev, there.st_ino) in wishes.protected:
        raise MsdumpError(f"{path}: is one of the files to convert and stays as it is; choose another folder")
    return path


def _taken(name: str, owner: Path) -> MsdumpError:
    return MsdumpError(f"{name}: a file of that name is made of {owner} already; give this one a folder of its own")


def _tensor(source: SourceFile, tensor: WantedTensor, outcome: Outcome, wishes: Wishes, open_view: Open) -> None:
    try:
        if tensor.taken_by is not None:
            raise _taken(tensor.stem.numbered or tensor.stem.whole, tensor.taken_by)
        with closing(open_view(tensor.ref)) as view:
            outcome.opened += 1
            done = _as_wished(view, wishes)
            name = tensor.stem.file_name(
                wishes.to,
                shape=done.shape,
                dtype=done.dtype,
                memory_format=_format_of(view, wishes),
                converted=wishes.memory_format is not None,
            )
            path = _target(source, name, outcome, wishes)
            kind = "npy" if wishes.to == "msnpy" else wishes.to
            outcome.written.append(write_view(done, path, to=kind))
    except (MsdumpError, OSError, MemoryError) as error:
        _fail(tensor, outcome, error)


def _fail(tensor: WantedTensor, outcome: Outcome, error: BaseException) -> None:
    # A file of one tensor fails as a whole, as does one whose header does not tell which tensors it has.
    label = "" if tensor.ref.source.part is None else tensor.label
    reason = _reason(error, tensor.ref.source.path).removeprefix(f"{label.replace(':', ' ')}: ")
    outcome.failures.append((label, reason))


def _as_wished(view: TensorView, wishes: Wishes) -> TensorView:
    if wishes.from_format is not None:
        view = Relabelled(view, wishes.from_format)
    if wishes.memory_format is None:
        return view
    return brought(view, wishes.memory_format, shape=wishes.shape, converters=_converters(wishes.code))


@lru_cache(maxsize=1)
def _converters(code: Path | None) -> Converters:
    return {} if code is None else load_converters(code)[0]


def _format_of(view: TensorView, wishes: Wishes) -> str:
    if wishes.memory_format is not None or wishes.from_format is not None:
        return wishes.memory_format or wishes.from_format or ""
    said = view.spec.memory_format
    return said or format_name(said) or "ND"


def _archive(source: SourceFile, outcome: Outcome, wishes: Wishes, open_view: Open) -> None:
    """Put all tensors of a file that can be opened into one archive."""
    if source.taken_by is not None:
        raise _taken(source.name, source.taken_by)
    able = [tensor for tensor in source.tensors if _can_be(tensor, outcome, wishes, open_view)]
    if able:
        path = _target(source, source.name.removesuffix(".npy") + SUFFIXES["npz"], outcome, wishes)
        outcome.written.append(write_npz(_members(able, wishes, open_view), path))


def _can_be(tensor: WantedTensor, outcome: Outcome, wishes: Wishes, open_view: Open) -> bool:
    """Tell whether a tensor can be opened and brought where it is to go; note why not."""
    try:
        with closing(open_view(tensor.ref)) as view:
            outcome.opened += 1
            _as_wished(view, wishes)
    except (MsdumpError, OSError, MemoryError) as error:
        _fail(tensor, outcome, error)
        return False
    return True


def _members(tensors: Iterable[WantedTensor], wishes: Wishes, open_view: Open) -> Iterator[tuple[str, TensorView]]:
    for tensor in tensors:
        with closing(open_view(tensor.ref)) as view:
            yield f"{tensor.ref.key.io}.{tensor.ref.key.slot}", _as_wished(view, wishes)


def _overflow(source: SourceFile, outcome: Outcome, wishes: Wishes) -> None:
    if source.taken_by is not None:
        raise _taken(source.name, source.taken_by)
    parsed = parse_opdebug(source.name)
    if parsed is None:
        raise TensorFileError(f"{source.path}: its name is not that of an overflow file")
    record = read_overflow_file(source.path, parsed)
    if record.problem:
        raise TensorFileError(record.problem)
    for slot, document in record.documents.items():
        path = _target(source, f"{source.name}.output.{slot}.json", outcome, wishes)
        with whole_file(path) as stream:
            stream.write(json.dumps(document, indent=4).encode())
        outcome.written.append(path)


def _untyped(source: SourceFile, outcome: Outcome, wishes: Wishes) -> None:
    """Write the buffers and workspaces of a dump file."""
    # A header that cannot be read is a failure of its tensors already.
    with suppress(TensorFileError):
        for part in read_header(source.path)[0].raw:
            _untyped_part(source, part, outcome, wishes)


def _untyped_part(source: SourceFile, part: RawPart, outcome: Outcome, wishes: Wishes) -> None:
    word = RAW_WORDS[part.kind]
    try:
        if source.taken_by is not None:
            raise _taken(source.name, source.taken_by)
        path = _target(source, f"{source.name}.{word}.{part.slot}.bin", outcome, wishes)
        with whole_file(path) as stream:
            for piece in raw_bytes(source.path, part):
                stream.write(piece)
        outcome.written.append(path)
    except (MsdumpError, OSError) as error:
        outcome.failures.append((f"{word}:{part.slot}", _reason(error, source.path)))


# -- What a conversion writes beside its arrays ----------------------------------------------------------------------


FAILED_LIST = "convert_failed_file_list.txt"


def write_failed_list(outcomes: Iterable[Outcome], out: Path) -> Path | None:
    """List what could not be converted; without failures, remove the list of an earlier run.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Of all files.
    out : Path
        The output folder.

    Returns
    -------
    Path or None
        The list. A line has the source's path and, behind commas, those of its tensors that failed, as the vendor's has
        it: none where not one could be opened. Lines that begin with ``#`` below it say why.
    """
    failed = sorted((outcome for outcome in outcomes if outcome.failures), key=lambda outcome: outcome.path)
    path = out / FAILED_LIST
    if not failed:
        with suppress(OSError):
            path.unlink()
        return None
    with whole_file(path) as stream:
        for outcome in failed:
            labels = [label for label, _ in outcome.failures if label and outcome.opened]
            lines = [",".join([str(outcome.path), *labels])]
            lines += [f"# {label}: {reason}" if label else f"# {reason}" for label, reason in outcome.failures]
            # A name with a line break in it would look like two.
            stream.write("".join(f"{terminal_text(line)}\n" for line in lines).encode())
    return path


def write_mappings(names: Sequence[tuple[Path, str, str]]) -> list[Path]:
    """Note in each folder's ``mapping.csv`` which long names its short ones stand for; keep what it says already.

    Raises
    ------
    MsdumpError
        It cannot be written, or is no such table.
    """
    by_folder: defaultdict[Path, dict[str, str]] = defaultdict(dict)
    for folder, short, name in names:
        by_folder[folder][short] = name
    written = []
    for folder, rows in by_folder.items():
        path = folder / MAPPING
        if path.exists():
            known, note = read_mapping(path)
            if note:
                raise MsdumpError(f"{path} {note}; move it away, it would have to be written over")
            rows = {**known, **rows}
        with whole_file(path) as stream:
            stream.write(in_utf8("".join(f"{short},{name}\n" for short, name in rows.items())))
        written.append(path)
    return written
