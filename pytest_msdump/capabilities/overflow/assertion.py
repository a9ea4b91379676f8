"""Assert that nothing of a dump, a file or an array overflows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from os import PathLike

from pytest_msdump.capabilities.overflow.contents import Contents, contents
from pytest_msdump.capabilities.overflow.device import scan_ref
from pytest_msdump.capabilities.overflow.indexing import reported_overflows
from pytest_msdump.capabilities.overflow.opdebug import overflow_files
from pytest_msdump.core.compare.opening import OpenDump, Tensor, as_path, index, open_tensor
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import TensorRef
from pytest_msdump.core.text import say

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
            found.append(f"{name}: {say(side.overflow)}")
    if not seen:
        raise AssertionError(f"nothing was checked: {dump_or_array!s:.80} holds no element")
    lines = [*reported, *found]
    if lines:
        more = [f"and {len(lines) - _SHOWN_OVERFLOWS} more"] if len(lines) > _SHOWN_OVERFLOWS else []
        heads = [f"the device's own check has {len(reported)} to report"] if reported else []
        heads += [f"{len(found)} of {seen} tensors overflow or cannot be read"] if found else []
        head = f"{'; '.join(heads)}; first in execution order:"
        raise AssertionError("\n  ".join([head, *lines[:_SHOWN_OVERFLOWS], *more]))


def _dump_of(given: OpenDump | Dump | Tensor) -> Dump | None:
    """The dump that was given, if it is one; a tensor file is a dump, too."""
    if isinstance(given, (str, PathLike)):
        return index(as_path(given))
    dump = given.dump if isinstance(given, OpenDump) else given
    return dump if isinstance(dump, Dump) else None


def _of_tensor(given: Tensor) -> Iterable[tuple[str, Contents | str]]:
    with ExitStack() as stack:
        _, view = open_tensor(given, "tensor", stack)
        return [("tensor", contents(view, ranges=None))] if view.size else []


def _reported(dump: Dump) -> Iterator[str]:
    """What the device's own check says, and its files that cannot be read."""
    files = overflow_files(dump.root)
    for report in reported_overflows(dump, files):
        name = report.refs[0].key.op.label if report.refs else "an operator that was not dumped"
        yield f"{name}: {report.entry.sentence}"
    yield from (f"{file.path.name}: {file.problem}" for file in files if file.problem)


def _scanned(refs: Sequence[TensorRef]) -> Iterable[tuple[str, Contents | str]]:
    """Open, scan and close one tensor after the other."""
    for ref in refs:
        yield ref.key.address, scan_ref(ref)
