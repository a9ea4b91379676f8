"""Writes ``msdump.json``, and the journal that stands beside it until a recording has ended."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.statistics.hashing import Xxh64, has_compiled_hashes, order_free_sums
from pytest_msdump.core.dtypes.arrays import array_to_save
from pytest_msdump.core.dumps.file_names import number
from pytest_msdump.core.dumps.manifest import ENTRY, MANIFEST
from pytest_msdump.core.model.dump import (
    JOURNAL_FILE,
    MANIFEST_FILE,
    DistributedRank,
    Manifest,
    TensorEntry,
)
from pytest_msdump.core.storage.files import naming, write_atomic


def write_manifest(directory: Path, manifest: Manifest) -> Path:
    """Write `manifest` into `directory`, whole or not at all."""
    rows = (f" {_compact(name)}: {_on_lines(value)}" for name, value in MANIFEST.write(manifest).items())
    text = "{\n" + ",\n".join(rows) + "\n}"
    return write_atomic(directory / MANIFEST_FILE, text.encode("utf-8", "backslashreplace"))


def _on_lines(value: Any) -> str:
    """Return a mapping with each entry on a line of its own: json's own indentation takes ten times as long."""
    if not isinstance(value, dict) or not value:
        return _compact(value)
    return "{\n" + ",\n".join(f"  {_compact(name)}: {_compact(entry)}" for name, entry in value.items()) + "\n }"


_compact = json.JSONEncoder(ensure_ascii=False).encode


def add_to_journal(directory: Path, file: str, entry: TensorEntry) -> None:
    """Append one file to the journal of a recording, at a cost that does not depend on how many there are."""
    line = json.dumps({"file": file, **ENTRY.write(entry)}) + "\n"
    journal = os.open(directory / JOURNAL_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(journal, line.encode("ascii"))
    finally:
        os.close(journal)


@contextmanager
def marked_incomplete(directory: Path) -> Iterator[None]:
    """Mark a folder that a program dumps to as incomplete, by an empty journal, until the block ends well."""
    journal = directory / JOURNAL_FILE
    with naming(directory, "cannot be written to"):
        directory.mkdir(parents=True, exist_ok=True)
        journal.touch()
    yield
    # The program may have removed its folder, or made it anew.
    with naming(journal, "cannot be removed"), suppress(FileNotFoundError, NotADirectoryError):
        journal.unlink()


# The types that float64 is rounded to for its digest.
_ROUNDED = ("float32", "float16", "bfloat16")
_BLOCK_ELEMENTS = 2**18
# The algorithm of digests without a name.
SHA_256 = ""
# What follows the exact half of a digest. It takes as long again, and a process records one model several times. Where
# weights lie says nothing, nor does their version counter: .data changes without it.
_known: dict[str, str] = {}
_MOST_KNOWN = 8192


def digest(array: Any, algorithm: str | None = None) -> str:
    """Return the digest of one array, which is as `DumpWriter.write` takes it.

    Before the slash is the digest of its bytes, type and shape: ``xxh64:HEX``, or SHA-256, which has no name and is
    made where there is no compiled kernel. The part after it is the same for the same elements in another order. Of
    float64 it is also there for the values rounded to coarser types, each behind a plus: a more exact run has the
    weights of the reference in float64.

    >>> first = digest(np.arange(6, dtype="float32").reshape(2, 3))
    >>> turned = digest(np.arange(6, dtype="float32").reshape(2, 3).T)
    >>> first == turned, first.split("/")[1] == turned.split("/")[1]
    (False, True)
    """
    if algorithm is None:
        algorithm = "xxh64" if has_compiled_hashes() else SHA_256
    values, logical = _little(array)
    exact = _exact(values, logical, algorithm)
    known = _known.get(exact)
    if known is None:
        known = _order_free(values)
        while len(_known) >= _MOST_KNOWN:
            _known.pop(next(iter(_known)), None)
        _known[exact] = known
    return exact + known


def has_digest(array: Any, known: str) -> bool:
    """Whether an array is the one that a digest was made of, type and shape included. Quicker than making another."""
    exact, _, values = known.partition("/")
    exact = exact.partition("+")[0]
    algorithm = exact.rpartition(":")[0]
    if algorithm not in (SHA_256, "xxh64"):
        # Of a later version: the elements alone are compared, which every version digests alike.
        return digest(array).rpartition("/")[2] == values
    return _exact(*_little(array), algorithm) == exact


def _exact(values: npt.NDArray[Any], logical: str | None, algorithm: str) -> str:
    title = f"{logical or values.dtype.newbyteorder('<').str}{values.shape}".encode()
    if algorithm == SHA_256:
        made = hashlib.sha256(title)
        made.update(values.data)
        return made.hexdigest()[:32]
    seed = Xxh64()
    seed.update(title)
    quick = Xxh64(int(seed.hexdigest(), 16))
    quick.update(values)
    return f"{algorithm}:{quick.hexdigest()}"


def _order_free(values: npt.NDArray[Any]) -> str:
    coarse = _ROUNDED if values.dtype.kind == "f" and values.dtype.itemsize == 8 else ()
    own, *rounded = (
        "".join(f"{part:016x}" for part in sums.tolist())
        for sums in (order_free_sums(values), *(_rounded_sums(values, name) for name in coarse))
    )
    return "".join(f"+{name}:{total}" for name, total in zip(coarse, rounded, strict=True)) + f"/{own}"


def _little(array: Any) -> tuple[npt.NDArray[Any], str | None]:
    values, logical = array_to_save(array)
    return values.astype(values.dtype.newbyteorder("<"), copy=False), logical


def _rounded_sums(values: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    flat = values.reshape(-1)
    blocks = (flat[start : start + _BLOCK_ELEMENTS] for start in range(0, flat.size, _BLOCK_ELEMENTS))
    return sum((order_free_sums(_rounded(block, name)) for block in blocks), np.zeros(2, np.uint64))


def _rounded(block: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Return float64 rounded to a coarser type, as a file holds that."""
    with np.errstate(all="ignore"):
        if name != "bfloat16":
            return block.astype(np.dtype(name).newbyteorder("<"))
        bits = block.astype("<f4").view("<u4")
        # To the nearest, of two that are as near to the even one.
        upper: npt.NDArray[Any] = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
        return upper


def digests(arrays: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the digests of arrays by name; a text is a digest already."""
    return {name: array if isinstance(array, str) else digest(array) for name, array in (arrays or {}).items()}


_START = r"(?:(?<![\w.~/\\-])|(?<=^-\w))"
_END = r"\s:;,=\"'\[\](){}"
# An absolute path inside of an argument, at its start or behind a sign: --out=/a, a:/b, -I/c, file:///d. Neither a
# relative one nor the address of a web page.
_ABSOLUTE = re.compile(rf"{_START}(?:file://|(?<!:)/+)?/(?!/)[^{_END}]+")


def movable(values: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return the content of a manifest without the paths of this machine."""
    # A program is called by either spelling of a folder behind a link.
    roots = tuple(dict.fromkeys((os.path.abspath(root), os.path.realpath(root))))  # noqa: PTH100
    made = dict(values)
    if isinstance(values.get("command"), list):
        made["command"] = [_argument(str(text), roots) for text in values["command"]]
    if isinstance(values.get("tensors"), dict):
        made["tensors"] = {name: _entry(entry, roots) for name, entry in values["tensors"].items()}
    return made


def _entry(entry: Any, roots: tuple[str, ...]) -> Any:
    line = entry.get("line") if isinstance(entry, dict) else None
    if not isinstance(line, str) or not line.startswith("/"):
        return entry
    for root in roots:
        below = line.removeprefix(f"{root.rstrip('/')}/")
        if below != line:
            return {**entry, "line": below}
    return {name: value for name, value in entry.items() if name != "line"}


def _argument(text: str, roots: tuple[str, ...]) -> str:
    for root in roots:
        # Here and not below, since folders' names may hold what ends a path elsewhere, such as spaces.
        below = rf"{_START}{re.escape(root)}(/(?=[^/{_END}])|(?=/?(?:$|[{_END}])))"
        text = re.sub(below, lambda found: "" if found[1] else ".", text)
    return _ABSOLUTE.sub(lambda found: PurePosixPath(found[0]).name, text)


_AXIS = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# Rank and number of processes, as torchrun, Open MPI and MindSpore's msrun set them.
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("RANK_ID", "RANK_SIZE"),
)


def this_rank() -> DistributedRank | None:
    """Return which process of several this one is; ``None`` where it runs alone.

    ``torch.distributed`` says so once it is initialised; until then the variables of torchrun, Open MPI or msrun.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        rank, size = int(distributed.get_rank()), int(distributed.get_world_size())
        return DistributedRank(rank, size) if size > 1 else None
    for names in _VARIABLES:
        own, count = (number(os.environ.get(name, "")) for name in names)
        if own is not None and count is not None and own < count:
            return DistributedRank(own, count) if count > 1 else None
    return None


def groups_of(mesh: Any, weights: Iterable[Any]) -> Mapping[str, Sequence[int]]:
    """Return the ranks of this process's group in each dimension of PyTorch's device meshes; its place is in it.

    These are the `mesh` that is given, else those that weights are distributed over. Of two dimensions of one name the
    first counts.
    """
    found = [mesh] if mesh is not None else [getattr(weight, "device_mesh", None) for weight in weights]
    groups: dict[str, Sequence[int]] = {}
    for each in dict.fromkeys(one for one in found if one is not None):
        at = each.get_coordinate() or ()
        names = each.mesh_dim_names or tuple(f"axis{number}" for number in range(each.ndim))
        for axis, name in zip(range(len(at)), names, strict=True):
            group = each.mesh[tuple(slice(None) if other == axis else place for other, place in enumerate(at))]
            groups.setdefault(name, tuple(group.tolist()))
    return groups


def placement_of(tensor: Any, groups: Mapping[str, Sequence[int]]) -> str:
    """Return how a distributed tensor of PyTorch is placed, in the dims language, with the axes `groups`.

    It is empty for any other tensor, and for a placement that cannot be put together without doubt: a reduction other
    than a sum, a strided cut of a length that does not divide, a mesh whose groups are others.
    """
    mesh, placements = getattr(tensor, "device_mesh", None), getattr(tensor, "placements", ())
    if mesh is None or not placements:
        return ""
    own = groups_of(mesh, ())
    if not own or any(not _AXIS.fullmatch(axis) or groups.get(axis) != ranks for axis, ranks in own.items()):
        return ""
    cuts: list[list[str]] = [[] for _ in tensor.shape]
    notes: list[str] = []
    # From the last axis on: a strided cut is inside of the `split_factor` parts that later axes have made.
    for axis, placement in reversed(list(zip(own, placements, strict=True))):
        kind, within = type(placement).__name__, 1
        if kind == "Replicate" or (kind == "Partial" and placement.reduce_op == "sum"):
            notes.insert(0, f"{axis}:{'replicated' if kind == 'Replicate' else 'partial'}")
            continue
        if kind not in ("Shard", "_StridedShard"):
            return ""
        if kind == "_StridedShard":
            within = placement.split_factor
        before = cuts[placement.dim]
        outer = next((n for n in range(len(before) + 1) if prod(len(own[one]) for one in before[:n]) == within), None)
        if outer is None or (within > 1 and tensor.shape[placement.dim] % prod(map(len, own.values()))):
            return ""
        before.insert(outer, axis)
    dims = [f"d{number}[{','.join(axes)}]" if axes else f"d{number}" for number, axes in enumerate(cuts)]
    return " ".join([*dims, *(["#", *notes] if notes else [])])
