"""Compare the tensors of a dump with the statistics that the run saved of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from pytest_msdump.capabilities.statistics.distance import distance
from pytest_msdump.core.compare.opening import open_logical, open_view
from pytest_msdump.core.compare.user_code import Watch, unwatched
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.facts.metrics import STATISTICS
from pytest_msdump.core.model.comparison import StatisticDifference
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import Statistic, Statistics, TensorRef, TensorView
from pytest_msdump.metrics.statistics import statistics_of

_DIGESTS = tuple(name for name, fact in STATISTICS.items() if fact.kind == "digest")


@dataclass(frozen=True)
class Verified:
    """The tensors of a dump that have both values and saved statistics, and where these differ."""

    dump: Dump
    refs: tuple[TensorRef, ...]
    differences: tuple[StatisticDifference, ...]

    @property
    def is_clean(self) -> bool:
        """Whether there was a tensor to verify, and all of them agree."""
        return bool(self.refs) and not self.differences


def verify(dump: Dump, *, watch: Watch = unwatched) -> Verified:
    """Compute the statistics of every tensor that has saved ones, and compare them."""
    # Means and norms agree to a millionth: a device adds up in float32.
    refs = tuple(ref for ref in dump.refs if ref.statistics is not None and not ref.is_unseen)
    return Verified(dump, refs, tuple(difference for ref in watch(refs, "tensors") for difference in _differences(ref)))


def _differences(ref: TensorRef) -> Iterator[StatisticDifference]:
    saved = ref.statistics or Statistics()
    try:
        with closing(_open(ref, saved)) as view:
            yield from _compare_view(ref, saved, view)
    except MsdumpError as error:
        yield StatisticDifference(ref, "tensor", None, None, str(error))
    except OSError as error:
        where = error.filename or ref.source.path
        yield StatisticDifference(ref, "tensor", None, None, f"{where}: cannot be read ({error.strerror or error})")


def _open(ref: TensorRef, saved: Statistics) -> TensorView:
    """Open the tensor in its stored axes if these have the row's shape, else in its logical ones."""
    view = open_view(ref)
    if saved.spec is None or saved.spec.shape in (None, view.shape):
        return view
    view.close()
    return open_logical(ref)


def _compare_view(ref: TensorRef, saved: Statistics, view: TensorView) -> Iterator[StatisticDifference]:
    claimed = saved.spec
    if claimed is not None and claimed.shape not in (None, view.shape):
        yield StatisticDifference(ref, "shape", str(claimed.shape), str(view.shape))
        return
    if claimed is not None and claimed.dtype not in (None, view.dtype):
        yield StatisticDifference(ref, "data type", claimed.dtype, view.dtype)
        return
    data_bytes = math.ceil(view.size * DTYPES[view.dtype].bits / 8)
    if saved.data_bytes not in (None, data_bytes):
        yield StatisticDifference(ref, "data size", saved.data_bytes, data_bytes)
    wanted = [name for name in _DIGESTS if saved.values.get(name) is not None]
    computed = Statistics(statistics_of(view, digests=wanted), digits=None)
    found = distance(
        saved, computed, left_dtype=view.dtype, right_dtype=view.dtype, elements=view.size, limited=frozenset()
    )
    finite_alone = not any(found.nan[1:] + found.inf[1:])
    for name in STATISTICS:
        one, other = saved.values.get(name), computed.values.get(name)
        if one is None or name not in computed.values:
            continue
        gap = found.gaps.get(name)
        differs = gap.beyond > 0 if gap is not None else not _same(one, other, finite_alone=finite_alone)
        if differs:
            yield StatisticDifference(ref, name, one, other)


def _same(saved: Statistic, computed: Statistic, *, finite_alone: bool) -> bool:
    """Whether two values that cannot be subtracted agree; extremes of a device may be those of its NaN and Inf."""
    if isinstance(saved, float) and not math.isfinite(saved):
        is_class = isinstance(computed, float) and not math.isfinite(computed)
        return str(saved) == str(computed) if is_class else not finite_alone
    return saved == computed
