"""Results and inputs that Polygraphy saves as JSON: arrays of `numpy.save` in base64, by runner and iteration.

References: Polygraphy 0.53, ``polygraphy/json/serde.py`` and ``polygraphy/comparator/struct.py``; what
``polygraphy run --save-outputs`` and ``--save-inputs`` write.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from pytest_msdump.core.dumps.array_files import ArrayFileReader, Contents, NamedArray
from pytest_msdump.core.dumps.array_reader import StoredView
from pytest_msdump.core.dumps.base import DumpBuilder
from pytest_msdump.core.dumps.npy import npy_view
from pytest_msdump.core.dumps.reruns import Reruns
from pytest_msdump.core.dumps.stored_file import StoredFile
from pytest_msdump.core.errors import TensorFileError, UnknownDumpFormatError
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec
from pytest_msdump.core.storage.files import unique_keys
from pytest_msdump.core.text import Message, say

_RESULTS = "lst"
_BEGINS = re.compile(
    rb'\s*(?:\{\s*"lst"\s*:\s*\[|\[\s*\{\s*"(?:[^"\\]|\\.)+"\s*:\s*\{\s*"(?:array|values|tensor)"\s*:)', re.DOTALL
)
# Polygraphy puts a number and a time behind the name of a runner.
_RUN = re.compile(r"-N[0-9]+-[0-9/]+-[0-9:]+")
_HEAD_BYTES, _PIECE_BYTES = 2**14, 2**20
_LONGEST_TEXT = 2**12
_MAX_OUTLINE_BYTES = 2**26
# What every array of `numpy.save` begins with, in base64.
_NPY = b"k05VTVBZ"
_PLACE = re.compile(r"@([0-9]{1,18}):([0-9]{1,18})", re.ASCII)
_RESAVE = "save it again with polygraphy run --save-outputs"


class PolygraphyReader(ArrayFileReader):
    """Each output is an operator of its name; several runners of one file are nets."""

    name = "polygraphy"
    looks_for = "a .json file of polygraphy run --save-outputs or --save-inputs"
    precedence = 1
    suffixes = (".json",)

    def recognises(self, root: Path) -> bool:
        """Return whether `root` is JSON that begins as Polygraphy's does: its name says nothing."""
        if not super().recognises(root):
            return False
        try:
            with closing(StoredFile(root)) as file:
                return _BEGINS.match(file.read_bytes(0, min(file.size, _HEAD_BYTES))) is not None
        except TensorFileError:
            return False

    def index(self, root: Path) -> Dump:
        """List the arrays by name, runner and iteration; UnknownDumpFormatError where the file is damaged."""
        try:
            arrays = self.arrays(root)
        except TensorFileError as error:
            raise UnknownDumpFormatError(str(error)) from error
        runners = {array.entry[0] for array in arrays}
        short = {one: _RUN.sub("", one) for one in runners}
        builder = DumpBuilder(root, self.name)
        for runner in filter(str.isprintable, filter(None, runners)):
            builder.labels["runner"].add(runner)
        refs = []
        for part, array in enumerate(arrays):
            runner, iteration, _ = array.entry
            net = short[runner] if len(set(short.values())) == len(runners) else runner
            at = Coordinates(net=net if len(runners) > 1 else None, iteration=iteration, occurrence=0)
            key = TensorKey(OpKey(array.name, at), "output", 0)
            refs.append(TensorRef(key, TensorSpec(), TensorSource.of(root, part, part), self.name))
        builder.note(say(Message("note_order_of_outputs")))
        return builder.build(Reruns(tuple(refs)))

    def contents_of(self, file: StoredFile) -> Contents:
        """Read all but the arrays; see `ArrayFileReader.contents_of`."""
        try:
            value = json.loads(_outline(file), object_pairs_hook=unique_keys)
            return Contents(tuple(_arrays(value)))
        except (ValueError, LookupError, RecursionError, TypeError, AttributeError) as error:
            raise TensorFileError(
                f"{file.where}: is not what Polygraphy saves, or was cut off ({error!s:.80}); {_RESAVE}"
            ) from error

    def view_of(self, file: StoredFile, array: NamedArray) -> StoredView:
        """Open an array where it lies; see `ArrayFileReader.view_of`."""
        _, _, text = array.entry
        place = _PLACE.fullmatch(text)
        where = f"{file.where}: {array.name}"
        if place is None or not 0 <= int(place[1]) <= int(place[2]) <= file.size:
            raise TensorFileError(f"{where}: is no array of numpy.save in base64; {_RESAVE}")
        return npy_view(_Base64(file, int(place[1]), int(place[2]), where), array.spec, where=where)


def _outline(file: StoredFile) -> str:
    """Return the JSON with ``@START:STOP`` in place of arrays and other long texts, which stay in the file."""
    kept: list[bytes] = []
    begun, start, total = bytearray(), 0, 0

    def shown(stop: int) -> bytes:
        is_kept = stop - start <= _LONGEST_TEXT and not begun.startswith(_NPY)
        return bytes(begun) if is_kept else f"@{start}:{stop}".encode()

    for at in range(0, file.size, _PIECE_BYTES):
        place = at
        for number, piece in enumerate(file.read_bytes(at, min(_PIECE_BYTES, file.size - at)).split(b'"')):
            if number:
                kept.append(shown(place - 1))
                total += len(kept[-1])
                begun, start = bytearray(), place
            begun += piece[: _LONGEST_TEXT + 1 - len(begun)]
            place += len(piece) + 1
        if total > _MAX_OUTLINE_BYTES:
            raise ValueError(f"it has more than {_MAX_OUTLINE_BYTES} bytes beside its arrays")
    kept.append(shown(file.size))
    return b'"'.join(kept).decode()


def _arrays(value: Any) -> Iterator[NamedArray]:
    """Yield the arrays, each with its runner, iteration and place; ValueError and the like where they are not there."""
    is_inputs = isinstance(value, list)
    for runner, iterations in [("", value)] if is_inputs else value[_RESULTS]:
        for number, iteration in enumerate(iterations):
            for name, held in (iteration if is_inputs else iteration["outputs"]).items():
                array = held.get("values", held)
                text = array.get("array")
                problem = "" if isinstance(text, str) else _problem(array)
                yield NamedArray(name, TensorSpec(), 0, 0, problem, (str(runner), number, text))


def _problem(array: Any) -> str:
    if "tensor" in array:
        return "is a tensor of PyTorch, which was pickled; give Polygraphy numpy arrays, or convert it with .numpy()"
    return f"has no array; {_RESAVE}"


class _Base64(StoredFile):
    """What a text of base64 in a file stands for, as a file."""

    def __init__(self, text: StoredFile, start: int, stop: int, where: str) -> None:
        self._location, self._text, self._start = where, text, start
        tail = text.read_bytes(max(start, stop - 2), min(2, stop - start))
        groups, rest = divmod(stop - start, 4)
        if rest:
            raise TensorFileError(f"{where}: its base64 is cut off; {_RESAVE}")
        self.size = 3 * groups - tail.count(b"=")

    @property
    def descriptor(self) -> None:
        """None: nothing but `read_into` can read it."""
        return

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill `target` from byte `offset` on; TensorFileError where the text is no base64."""
        first, last = offset // 3, -(-(offset + target.nbytes) // 3)
        text = self._text.read_bytes(self._start + 4 * first, 4 * (last - first))
        try:
            data = binascii.a2b_base64(text)
        except binascii.Error:
            data = b""
        skipped = offset - 3 * first
        if len(data) < min(3 * last, self.size) - 3 * first:
            raise TensorFileError(f"{self.where}: its base64 is damaged; {_RESAVE}")
        target.cast("B")[:] = data[skipped : skipped + target.nbytes]

    def close(self) -> None:
        """Close the file that holds the text."""
        self._text.close()
