"""Hand-built dumps: an index needs no files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import (
    Coordinates,
    OpKey,
    Pairing,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorSpec,
    mangle,
)


def tensor(name: str, port: str = "output:0", *, op_type: str | None = None, **at: Any) -> TensorRef:
    """A tensor of a reference folder: iteration 0, occurrence 0, nothing else known."""
    io, slot = port.split(":")
    place = Coordinates(**{"iteration": 0, "occurrence": 0, **at})
    key = TensorKey(OpKey(name, place, op_type), io, int(slot))
    return TensorRef(key, TensorSpec(), TensorSource.of(Path(f"{name}.npy")), "npy-folder")


def run_tensor(true_name: str, port: str = "output:0", *, known: bool = True, **more: Any) -> TensorRef:
    """A tensor of a MindSpore tree: every coordinate known, and the name mangled in its file."""
    op_type = more.pop("op_type", true_name.rpartition("/")[2].partition("-op")[0])
    io, slot = port.split(":")
    place = Coordinates(**{"rank": 0, "net": "Net", "graph": 0, "iteration": 0, "occurrence": 0, **more})
    key = TensorKey(OpKey(mangle(true_name), place, op_type, true_name if known else None), io, int(slot))
    return TensorRef(key, TensorSpec(), TensorSource.of(Path(f"{mangle(true_name)}.npy")), "mindspore")


def dump(*refs: TensorRef, older: tuple[TensorRef, ...] = (), reader: str = "made") -> Dump:
    return Dump(Path("dump"), reader, refs, older)


def addresses(pairing: Pairing) -> list[tuple[str, str, str]]:
    return [(pair.left.key.address, pair.right.key.address, pair.how) for pair in pairing.pairs]


def reasons(pairing: Pairing, side: str = "left") -> dict[str, str]:
    alone = pairing.unmatched_left if side == "left" else pairing.unmatched_right
    return {one.ref.key.address: one.reason for one in alone}
