"""The assertion about one side alone: nothing overflows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from os import PathLike

from pytest_msdump.metrics.overflow import OneSide, scan
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.tensor import TensorRef
from pytest_msdump.pipeline.culprits import culprits_of
from pytest_msdump.pipeline.given import Tensor, opened
from pytest_msdump.pipeline.indexing import index
from pytest_msdump.pipeline.opening import OpenDump, as_path
from pytest_msdump.pipeline.scanning import scanned
from pytest_msdump.readers.opdebug_files import overflow_files

__all__ = ["assert_no_overflow"]

_SHOWN_OVERFLOWS = 10


def assert_no_overflow(dump_or_array: OpenDump | Dump | Tensor) -> None:
    """Fail when a dump, a tensor file or an array holds NaN, Inf, or values at their dtype's maximum.

    So do overflow files (Opdebug) of the device's own check that lie in a dump.

    Parameters
    ----------
    dump_or_array : OpenDump, str or Path of a dump or tensor file, TensorView, array_like
        One side alone; there is nothing to compare with.

    Raises
    ------
    AssertionError
        Names each tensor with its counts and first position, in execution order.
    """
    __tracebackhide__ = True
    dump = _dump_of(dump_or_array)
    reported = [] if dump is None else list(_reported(dump))
    found: list[str] = []
    seen = 0
    for name, side in _scanned(dump.refs) if dump else _of_tensor(dump_or_array):
        seen += 1
        if isinstance(side, str):
            found.append(f"{name}: {side}")
        elif side.nan or side.inf or side.saturated:
            found.append(f"{name}: {_overflow_text(side)}")
    if not seen:
        raise AssertionError(f"nothing was checked: {dump_or_array!s:.80} holds no element")
    told = [*reported, *found]
    if told:
        more = [f"and {len(told) - _SHOWN_OVERFLOWS} more"] if len(told) > _SHOWN_OVERFLOWS else []
        heads = [f"the device's own check has {len(reported)} to report"] if reported else []
        heads += [f"{len(found)} of {seen} tensors overflow or cannot be read"] if found else []
        head = f"{'; '.join(heads)}; first in execution order:"
        raise AssertionError("\n  ".join([head, *told[:_SHOWN_OVERFLOWS], *more]))


def _dump_of(given: OpenDump | Dump | Tensor) -> Dump | None:
    """The dump that was given, if it is one; a tensor file is a dump, too."""
    if isinstance(given, (str, PathLike)):
        return index(as_path(given))
    dump = given.dump if isinstance(given, OpenDump) else given
    return dump if isinstance(dump, Dump) else None


def _of_tensor(given: Tensor) -> Iterable[tuple[str, OneSide | str]]:
    with ExitStack() as stack:
        _, view = opened(given, "tensor", stack)
        return [("tensor", scan(view))] if view.size else []


def _reported(dump: Dump) -> Iterator[str]:
    """What the device's own check says, and its files that cannot be read."""
    files = overflow_files(dump.root)
    for culprit in culprits_of(dump, files):
        name = culprit.refs[0].key.op.label if culprit.refs else "an operator that was not dumped"
        yield f"{name}: {culprit.entry.sentence}"
    yield from (f"{file.path.name}: {file.problem}" for file in files if file.problem)


def _scanned(refs: Sequence[TensorRef]) -> Iterable[tuple[str, OneSide | str]]:
    """Open, scan and close one tensor after the other."""
    for ref in refs:
        yield ref.key.address, scanned(ref)


def _overflow_text(side: OneSide) -> str:
    """Counts by class and the first position."""
    counts = (("NaN", side.nan), ("Inf", side.inf), ("at the dtype's maximum", side.saturated))
    told = ", ".join(f"{count} {what}" for what, count in counts if count)
    place = "the tensor itself was not saved" if side.first is None else f"first at {list(side.first)}"
    return f"{told} of {side.elements} elements; {place}"
