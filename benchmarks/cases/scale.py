"""Dumps that no benchmark can make, worked out from what was measured of those that it can."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from measuring.figures import Case
from measuring.tables import table

from cases import networks, pair
from cases.files import MEMORY

__all__ = ["NEEDED", "Dump", "Memory", "Storage", "bound", "scale"]

NEEDED = ("pair-float32", "tiny", "index")
_FLOAT_BYTES = 4
_HOUR = 3600


class Dump(NamedTuple):
    """A run's dump, and a reference of the same size: float32, in tensors of this size on average."""

    title: str
    side_bytes: float
    tensor_bytes: float

    @property
    def tensors(self) -> float:
        """How many tensors a side has."""
        return self.side_bytes / self.tensor_bytes


class Memory(NamedTuple):
    """Bytes that who starts a comparison holds: of a file that is indexed, and of a pair, its files and its record."""

    of_file: float
    of_pair: float


class Storage(NamedTuple):
    """What both dumps lie on: bytes a second, read from one end to the other. A supposition, not a measurement."""

    title: str
    bytes_a_second: float


DUMPS = (Dump("300 GB", 300e9, 8e6), Dump("17 TB", 17e12, 64e6))
STORAGES = (
    Storage("one SATA drive, 0.5 GB/s", 0.5e9),
    Storage("one NVMe drive, 3 GB/s", 3e9),
    Storage("a parallel file system, 40 GB/s", 40e9),
)
# Each with the program whose cost of a further pair of tensors it shares; of a stranger's that was not measured.
PROGRAMS = {
    "kernel, without KL": (pair.OURS_NINE, networks.OURS),
    "kernel, all metrics": (pair.OURS, networks.OURS),
    "fallback, without KL": (pair.NUMPY_NINE, networks.NUMPY),
    "fallback, all metrics": (pair.NUMPY, networks.NUMPY),
    "the vendor's file_compare": (pair.VENDOR, None),
}


def scale(cases: Mapping[str, Case], *, kernel: bool) -> str:
    """Return what large dumps take, as tables of Markdown.

    Parameters
    ----------
    cases : mapping of str to Case
        Those of `NEEDED`.
    kernel : bool
        Whether there was a kernel: without one, programs "as installed" are the fallback.
    """
    rates = {
        title: (elements[name], cases["tiny"].rates[tensors] if tensors else None)
        for title, (name, tensors) in PROGRAMS.items()
        for elements in [cases["pair-float32"].rates]
        if name in elements and (kernel or not title.startswith("kernel"))
    }
    memory = Memory(cases["index"].rates[MEMORY], cases["tiny"].rates[networks.PAIR_MEMORY])
    return "\n\n".join([_rates(rates, memory), *(_dump(dump, rates, memory) for dump in DUMPS)])


def bound(cpu_seconds: float, storage_seconds: float) -> tuple[int, float]:
    """Return how many workers keep the storage busy, and the seconds that the comparison then takes.

    One worker more would wait for the storage; with one less the storage waits.

    >>> bound(100.0, 30.0)
    (4, 30.0)
    >>> bound(10.0, 30.0)
    (1, 30.0)
    """
    return max(1, math.ceil(cpu_seconds / storage_seconds)), storage_seconds


def _rates(rates: Mapping[str, tuple[float, float | None]], memory: Memory) -> str:
    rows = [
        (title, f"{elements * 1e9:.2f}", _milliseconds(tensors), f"{2 * _FLOAT_BYTES / elements / 1e9:.2f}")
        for title, (elements, tensors) in rates.items()
    ]
    titles = ("", "ns a pair of elements", "ms a pair of tensors", "GB/s a core, of both sides")
    return (
        f"{table(titles, rows)}\n\nA file that is indexed takes {memory.of_file / 1024:.1f} KiB of memory; a pair that "
        f"is compared through the fusion JSON takes {memory.of_pair / 1024:.1f} KiB, its record with it."
    )


def _milliseconds(seconds: float | None) -> str:
    return "not measured" if seconds is None else f"{seconds * 1e3:.2f}"


def _dump(dump: Dump, rates: Mapping[str, tuple[float, float | None]], memory: Memory) -> str:
    read = 2 * dump.side_bytes
    rows = []
    for title, (of_elements, of_tensors) in rates.items():
        cpu = dump.side_bytes / _FLOAT_BYTES * of_elements + dump.tensors * (of_tensors or 0.0)
        cells = [_storage(cpu, read / storage.bytes_a_second) for storage in STORAGES]
        rows.append((title, _time(cpu), *cells))
    heading = (
        f"**{dump.title} beside a reference of as much**: {dump.side_bytes / _FLOAT_BYTES:.2g} pairs of float32 "
        f"elements in {dump.tensors:,.0f} pairs of tensors. The index of both sides takes "
        f"{2 * dump.tensors * memory.of_file / 2**20:,.0f} MiB; all pairs with their records take "
        f"{dump.tensors * memory.of_pair / 2**20:,.0f} MiB."
    )
    return f"{heading}\n\n{table(('', 'one core', *(storage.title for storage in STORAGES)), rows)}"


def _storage(cpu_seconds: float, storage_seconds: float) -> str:
    workers, seconds = bound(cpu_seconds, storage_seconds)
    return f"{_time(seconds)}, {workers} {'worker' if workers == 1 else 'workers'}"


def _time(seconds: float) -> str:
    if seconds < 2 * 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * _HOUR else f"{seconds / _HOUR:.1f} h"
