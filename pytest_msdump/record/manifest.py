"""Writes ``msdump.json``, and the journal that stands beside it until a recording has ended."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from pytest_msdump.dtypes.arrays import stored
from pytest_msdump.errors import MsdumpError
from pytest_msdump.model.dump import JOURNAL_FILE, MANIFEST_FILE, Manifest, TensorEntry

__all__ = ["add_to_journal", "digest", "digests", "marked_incomplete", "movable", "put", "write_manifest"]

# What an entry need not say: what it means when it is left out.
_SILENT: dict[str, Any] = {"io": "output", "slot": 0, "dtype": None, "op_type": None, "line": None}


def write_manifest(directory: Path, manifest: Manifest) -> Path:
    """Write `manifest` into `directory`, whole or not at all.

    Raises
    ------
    OSError
        It cannot be written.
    """
    values = asdict(manifest)
    values["tensors"] = {name: _short(entry) for name, entry in values["tensors"].items()}
    text = json.dumps(values, indent=1, sort_keys=False, ensure_ascii=False)
    return put(directory / MANIFEST_FILE, text.encode("utf-8", "backslashreplace"))


def add_to_journal(directory: Path, file: str, entry: TensorEntry) -> None:
    """Append one file to the journal of a recording; what it costs does not depend on how many there are.

    Raises
    ------
    OSError
        It cannot be written.
    """
    line = json.dumps({"file": file, **_short(asdict(entry))}) + "\n"
    with (directory / JOURNAL_FILE).open("ab") as stream:
        stream.write(line.encode("ascii"))


@contextmanager
def marked_incomplete(directory: Path) -> Iterator[None]:
    """Mark a folder that a program dumps to, until the block ends well: an empty journal has no manifest.

    Raises
    ------
    MsdumpError
        It cannot be written to.
    """
    journal = directory / JOURNAL_FILE
    try:
        journal.touch()
    except OSError as error:
        raise MsdumpError(f"{directory}: cannot be written to: {error.strerror or error}") from error
    yield
    try:
        journal.unlink()
    except (FileNotFoundError, NotADirectoryError):
        # The program has made its folder anew, or none.
        return
    except OSError as error:
        raise MsdumpError(f"{journal}: cannot be removed: {error.strerror or error}") from error


def _short(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry without what need not be said."""
    return {name: value for name, value in entry.items() if name not in _SILENT or value != _SILENT[name]}


def put(path: Path, content: bytes) -> Path:
    """Write a file so that a reader sees the old one or the new one, never a half."""
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path


# -- Digests of inputs and weights, by which two runs can tell whether they were given the same ----------------------


_BLOCK_ELEMENTS = 2**18
_SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


def digest(array: Any) -> str:
    """Return the digest of one array.

    Parameters
    ----------
    array : array or RawArray
        As `DumpWriter.write` takes it.

    Examples
    --------
    >>> first = digest(np.arange(6, dtype="float32").reshape(2, 3))
    >>> turned = digest(np.arange(6, dtype="float32").reshape(2, 3).T)
    >>> first == turned, first.split("/")[1] == turned.split("/")[1]
    (False, True)
    """
    values, logical = stored(array)
    flat = values.reshape(-1)
    exact = hashlib.sha256(f"{logical or values.dtype.newbyteorder('<').str}{values.shape}".encode())
    sums = [0, 0]
    for start in range(0, flat.size, _BLOCK_ELEMENTS):
        block = np.ascontiguousarray(flat[start : start + _BLOCK_ELEMENTS])
        block = block.astype(block.dtype.newbyteorder("<"), copy=False)
        exact.update(block.tobytes())
        sums = [total + _mixed(block, seed) for total, seed in zip(sums, _SEEDS, strict=True)]
    order_free = "".join(f"{total % 2**64:016x}" for total in sums)
    return f"{exact.hexdigest()[:32]}/{order_free}"


def digests(arrays: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the digests of arrays by name; a text is a digest already."""
    return {name: array if isinstance(array, str) else digest(array) for name, array in (arrays or {}).items()}


def _mixed(block: npt.NDArray[Any], seed: int) -> int:
    """Sum of a well-spread 64-bit number for each element: the same in any order."""
    # Two components of a complex number stay together: the second is spread before it is added.
    words = block.view(np.uint8).reshape(block.size, -1)
    padded = np.zeros((block.size, -(-words.shape[1] // 8) * 8), np.uint8)
    padded[:, : words.shape[1]] = words
    mixed = np.full(block.size, seed, np.uint64)
    for column in padded.view("<u8").T:
        mixed = _spread(mixed ^ column.astype(np.uint64))
    return int(mixed.sum(dtype=np.uint64))


def _spread(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of splitmix64."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    spread: npt.NDArray[np.uint64] = bits ^ (bits >> np.uint64(31))
    return spread


# -- Takes out of a manifest what is true on one machine only, so that a kept reference can be  ----------------------


_START = r"(?:(?<![\w.~/\\-])|(?<=^-\w))"
_END = r"\s:;,=\"'\[\](){}"
# An absolute path inside of an argument, at its start or behind a sign: --out=/a, a:/b, -I/c, file:///d. Neither a
# relative one nor the address of a web page.
_ABSOLUTE = re.compile(rf"{_START}(?:file://|(?<!:)/+)?/(?!/)[^{_END}]+")


def movable(values: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return the content of a manifest without the paths of this machine.

    Parameters
    ----------
    values : mapping
        As JSON has it.
    root : Path
        The project's folder. Lines of files below it are told relative to it, other lines are left out. Of the
        command, paths below it become relative to it, too, and of other paths the last part stays.

    Examples
    --------
    >>> movable({"command": ["/usr/bin/python3", "/home/me/net/train.py", "--out=/opt/dump"]}, Path("/home/me/net"))
    {'command': ['python3', 'train.py', '--out=dump']}
    """
    # A program is called by either spelling of a folder behind a link.
    roots = tuple(dict.fromkeys((os.path.abspath(root), os.path.realpath(root))))  # noqa: PTH100
    made = dict(values)
    if isinstance(values.get("command"), list):
        made["command"] = [_argument(str(text), roots) for text in values["command"]]
    if isinstance(values.get("tensors"), dict):
        made["tensors"] = {name: _entry(said, roots) for name, said in values["tensors"].items()}
    return made


def _entry(said: Any, roots: tuple[str, ...]) -> Any:
    """An entry whose line is told relative to the project, or not at all."""
    if not isinstance(said, dict) or not isinstance(said.get("line"), str) or not said["line"].startswith("/"):
        return said
    for root in roots:
        below = said["line"].removeprefix(f"{root.rstrip('/')}/")
        if below != said["line"]:
            return {**said, "line": below}
    return {name: value for name, value in said.items() if name != "line"}


def _argument(text: str, roots: tuple[str, ...]) -> str:
    for root in roots:
        # Here and not below, since folders' names may hold what ends a path elsewhere, such as spaces.
        text = re.sub(rf"{_START}{re.escape(root)}(/(?=[^/{_END}])|(?=/?(?:$|[{_END}])))", _inside, text)
    return _ABSOLUTE.sub(lambda found: PurePosixPath(found[0]).name, text)


def _inside(found: re.Match[str]) -> str:
    return "" if found[1] else "."
