"""What ``msdump inspect --verify`` says: tensors against the statistics that their run saved of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_msdump.checking.wording import counted, where_text, wrapped
from pytest_msdump.escape import terminal_text
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.statistics import Statistic, StatisticDifference
from pytest_msdump.model.tensor import COORDINATES, TensorRef
from pytest_msdump.pipeline.verifying import verifiable, verify
from pytest_msdump.reporting.values import encode

__all__ = ["Verified", "verified", "verify_entry", "verify_lines"]

_MOST_TENSORS = 20


@dataclass(frozen=True)
class Verified:
    """How many tensors could be held against statistics, and every difference."""

    dump: Dump
    tensors: int
    differences: tuple[StatisticDifference, ...]

    @property
    def is_clean(self) -> bool:
        """Whether there was something to hold against something, and all of it agreed."""
        return bool(self.tensors) and not self.differences


def verified(dump: Dump) -> Verified:
    """Hold every tensor of a dump against its row."""
    return Verified(dump, len(verifiable(dump)), verify(dump))


def verify_lines(found: Verified, *, width: int, everything: bool = False) -> Iterator[str]:
    """Yield what was held against what, and each difference."""
    dump = found.dump
    yield f"msdump inspect --verify: {dump.root} (reader {dump.reader})"
    yield f"  {found.tensors} of {counted(len(dump.refs), 'tensor')} held against statistics of the run"
    for note in dump.notes:
        yield from wrapped(note, width, indent=2)
    by_tensor: dict[TensorRef, list[StatisticDifference]] = {}
    for difference in found.differences:
        by_tensor.setdefault(difference.ref, []).append(difference)
    if not found.tensors:
        yield "  no tensor of this dump has a row in a table of statistics, so nothing was verified"
    elif not by_tensor:
        yield "  all of them agree"
    else:
        yield f"  {counted(len(by_tensor), 'tensor')} differ" + ("s" if len(by_tensor) == 1 else "")
    shown = list(by_tensor.items())
    for ref, differences in shown if everything else shown[:_MOST_TENSORS]:
        yield ""
        yield from _tensor(ref, differences, width)
    if len(shown) > _MOST_TENSORS and not everything:
        yield ""
        yield f"and {counted(len(shown) - _MOST_TENSORS, 'more tensor')}; --all tells them all"


def _tensor(ref: TensorRef, differences: Sequence[StatisticDifference], width: int) -> Iterator[str]:
    yield f"DIFFERS  {terminal_text(ref.key.address)}"
    where = where_text(ref.key.op.at)
    if where:
        yield f"         {where}"
    for difference in differences:
        if difference.problem:
            yield from wrapped(difference.problem, width, indent=9)
        else:
            what = difference.what.replace("_", " ")
            text = f"{what}: {_text(difference.saved)} in the table, {_text(difference.computed)} in the tensor"
            yield from wrapped(text, width, indent=9)
    yield f"         {terminal_text(str(ref.source.path))}"
    table = ref.statistics.source if ref.statistics else None
    if table is not None:
        yield f"         {terminal_text(str(table.path))}" + (f", line {table.part}" if table.part else "")


def _text(value: Statistic) -> str:
    return "nothing" if value is None else str(value)


def verify_entry(found: Verified) -> dict[str, Any]:
    """Return the same for ``--json``."""
    return {
        "directory": str(found.dump.root),
        "reader": found.dump.reader,
        "notes": list(found.dump.notes),
        "clean": found.is_clean,
        "tensors": found.tensors,
        "differences": [
            {
                "address": one.ref.key.address,
                **{name: getattr(one.ref.key.op.at, name) for name in COORDINATES},
                "file": str(one.ref.source.path),
                "what": one.what,
                "saved": _plain(one.saved),
                "computed": _plain(one.computed),
                "problem": one.problem or None,
            }
            for one in found.differences
        ],
    }


def _plain(value: Statistic) -> Any:
    return value if isinstance(value, str) else encode(value)
