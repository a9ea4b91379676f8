"""From dump files to references: what the headers of one directory's files say, and what there is to tell of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.dtypes import canonical
from pytest_msdump.errors import TensorFileError
from pytest_msdump.facts.dump_proto import DataType
from pytest_msdump.model.graph import file_spelling
from pytest_msdump.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec, location_of
from pytest_msdump.readers.ascend_contents import Noted
from pytest_msdump.readers.ascend_file import read_header
from pytest_msdump.readers.ascend_header import Header
from pytest_msdump.readers.ascend_names import AscendName, slice_name, slice_of
from pytest_msdump.readers.filename import is_time
from pytest_msdump.readers.stored_file import FileState

__all__ = ["Found", "Remarks", "refs_of"]

_UNREADABLE = "{files} of which the header cannot be read, e.g. {example}"
_WITHOUT_TENSORS = "{files} without a tensor, e.g. {example}"
_UNTYPED = "{files} with buffers or workspaces, which are no tensors and are left out, e.g. {example}"
_TRAILING = "{files} with more bytes than the header tells of, which were not read, e.g. {example}"
_FIRST_THREAD = "{files} of operators in threads (FFTS+), whose inputs are the first thread's alone, e.g. {example}"


class Found(NamedTuple):
    """A dump file, what its name says, and where in the run it was dumped."""

    folder: Path
    file: str
    name: AscendName
    at: Coordinates

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.folder / self.file


class Remarks:
    """What is worth a sentence, each kind said once however many files it is true of."""

    def __init__(self) -> None:
        self._files: defaultdict[str, list[str]] = defaultdict(list)
        self._said: list[str] = []

    def add(self, sentence: str, example: str) -> None:
        """Note a file; `sentence` has places for ``{files}`` and ``{example}``."""
        self._files[sentence].append(example)

    def say(self, *sentences: str) -> None:
        """Note something that is said as it is."""
        self._said += sentences

    @property
    def notes(self) -> tuple[str, ...]:
        """What was said, and one sentence for each kind of file."""
        counted = (
            sentence.format(files="1 file" if len(examples) == 1 else f"{len(examples)} files", example=min(examples))
            for sentence, examples in self._files.items()
        )
        return (*self._said, *counted)


def refs_of(found: Iterable[Found], remarks: Remarks, *, reader: str) -> list[TensorRef]:
    """Read the headers of one directory's files.

    Parameters
    ----------
    found : iterable of Found
        The files.
    remarks : Remarks
        Gets what is worth telling.
    reader : str
        Who opens the tensors.

    Returns
    -------
    list of TensorRef
        One for each input and output. A file whose header cannot be read gives one output, which cannot be opened.
        Their places are a guess, for `placed_by_time` to put right: most need not be made anew.
    """
    sliced: defaultdict[tuple[str, str], list[Found]] = defaultdict(list)
    refs: list[TensorRef] = []
    # They are looked at in order of time: what is made one after the other lies side by side in memory.
    for place, one in enumerate(sorted(found, key=lambda each: each.name.timestamp)):
        name = one.name
        if name.task_type is not None and name.is_ffts:
            sliced[name.op_type, slice_name(name.op).op].append(one)
        else:
            refs += _whole(one, place, remarks, reader)
    for files in sliced.values():
        for members in _passes(files):
            refs += _joined(members, remarks, reader)
    return refs


def _passes(files: Sequence[Found]) -> Sequence[Sequence[Found]]:
    """Tell the runs of one sliced operator apart: the first file of every slice, the second of every slice, and so on.

    Where one slice has more files than another, or their times are none, nothing tells which of them belong together.
    They stay one run, which has too many files to be opened: better than slices of two runs in one tensor.
    """
    by_number: defaultdict[int, list[Found]] = defaultdict(list)
    for one in sorted(files, key=lambda each: (each.name.timestamp, each.file)):
        by_number[slice_of(one.name)].append(one)
    ordered = [by_number[number] for number in sorted(by_number)]
    repeats = any(len(members) > 1 for members in ordered)
    if repeats and (len(set(map(len, ordered))) > 1 or not all(is_time(one.name.timestamp) for one in files)):
        return [[one for members in ordered for one in members]]
    return list(zip(*ordered, strict=True))


def _whole(one: Found, place: int, remarks: Remarks, reader: str) -> list[TensorRef]:
    """Make the references of one file; `place` is its operator's where nothing else comes between."""
    header, state = _header(one, remarks)
    folder, file, name, _ = one
    if header is None:
        return [_unreadable(one, TensorSource.inside(folder, file, name.timestamp), reader)]
    op = _key(one, header.op_name)
    refs: list[TensorRef] = []
    for part, tensor in enumerate(header.tensors):
        noted = Noted(tensor, state, header.end) if state else None
        source = TensorSource.inside(folder, file, name.timestamp, part, device_address=tensor.address, noted=noted)
        claimed = _claimed(tensor.data_type, tensor.shape, tensor.memory_format, tensor.original_shape, tensor.groups)
        refs.append(TensorRef(TensorKey(op, tensor.io, tensor.slot), claimed, source, reader, place))
    return refs


def _joined(members: Sequence[Found], remarks: Remarks, reader: str) -> Iterator[TensorRef]:
    """Make references to tensors whose slices are in several files."""
    headers = [_header(one, remarks)[0] for one in members]
    first = min(members, key=attrgetter("name.timestamp"))
    pieces = tuple(one.path for one in members)
    header, timestamp = headers[0], first.name.timestamp
    if header is None:
        source = TensorSource(pieces[0], timestamp, pieces=pieces)
        yield _unreadable(members[0], source, reader)
        return
    op = _key(members[0], header.op_name)
    by_threads = slice_name(members[0].name.op).number is None
    for part, tensor in enumerate(header.tensors):
        if tensor.io == "input" and by_threads and len(members) > 1:
            remarks.add(_FIRST_THREAD, members[0].file)
        source = TensorSource(pieces[0], timestamp, part, pieces, tensor.address)
        # Shapes are known when the slices are joined.
        claimed = _claimed(tensor.data_type, None, tensor.memory_format, None, tensor.groups)
        yield TensorRef(TensorKey(op, tensor.io, tensor.slot), claimed, source, reader)


def _header(one: Found, remarks: Remarks) -> tuple[Header | None, FileState | None]:
    try:
        header, size, state = read_header(location_of(one.folder, one.file))
    except TensorFileError:
        remarks.add(_UNREADABLE, one.file)
        return None, None
    if not header.tensors:
        remarks.add(_WITHOUT_TENSORS, one.file)
    if header.raw:
        remarks.add(_UNTYPED, one.file)
    if size > header.end:
        remarks.add(_TRAILING, one.file)
    return header, state


def _key(one: Found, header_name: str) -> OpKey:
    """Name an operator: as its file has it, and truly when the header's name is that name before it was mangled."""
    name, true_name = one.name.op, header_name
    if one.name.task_type is not None and one.name.is_ffts:
        sliced = slice_name(name)
        name, origin = sliced.op, sliced.origin
        true_name = slice_name(header_name).origin
        if file_spelling(true_name) != file_spelling(origin):
            true_name = origin
    elif true_name != name and (spelling := file_spelling(true_name)) != name and spelling != file_spelling(name):
        true_name = name
    return OpKey(name, one.at, one.name.op_type, true_name if true_name != name else None)


def _unreadable(one: Found, source: TensorSource, reader: str) -> TensorRef:
    return TensorRef(TensorKey(_key(one, ""), "output", 0), TensorSpec(), source, reader)


# A network has many tensors and few kinds of them, which share their memory.
@lru_cache(maxsize=2048)
def _claimed(
    data_type: DataType,
    shape: tuple[int, ...] | None,
    memory_format: str,
    original_shape: tuple[int, ...] | None,
    groups: int,
) -> TensorSpec:
    """Return what a header claims of a tensor."""
    return TensorSpec(canonical(data_type.dtype), shape, memory_format, original_shape, groups)
