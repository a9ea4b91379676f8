"""Compare or assert on two tensors: the same engine and the same text as the gate's. Works without pytest, too."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pytest_msdump.errors import ConfigError
from pytest_msdump.judging.policy import Policy
from pytest_msdump.model.pairing import Pair, Transform
from pytest_msdump.pipeline.comparing import compare_pair, compare_views
from pytest_msdump.pipeline.given import Tensor, opened

if TYPE_CHECKING:
    from pytest_msdump.model.record import Record

__all__ = ["assert_close", "compare"]

_WIDTH = 100


def compare(
    left: Tensor | Pair,
    right: Tensor | None = None,
    *,
    profile: str = "default",
    nan: str = "match",
    transpose: tuple[int, ...] | None = None,
    reshape: bool = False,
    name: str = "tensor",
    **limits: float,
) -> Record:
    """Measure and judge two tensors. Says nothing by itself: read `verdict` and `comparison`.

    Parameters
    ----------
    left, right : array_like, TensorView, TensorRef, str or Path
        The value under test and its reference. A `Pair` (of the fixture ``msdump_pairs``) stands for both.
    profile : str
        Named limits.
    nan : str
        ``"match"`` or ``"forbid"``.
    transpose : tuple of int, optional
        Axes of the right side, to meet the left.
    reshape : bool
        Whether the right side may have another shape with the same values in C order.
    name : str
        What messages call arrays that have no name of their own.
    **limits : float
        Limits by metric id or short form, e.g. ``cosine=0.9999``; they win over the profile.

    Returns
    -------
    Record
        Its verdict is ``error`` when shapes or files cannot be brought together.

    Raises
    ------
    ConfigError
        An unknown profile or metric, or a limit that cannot be meant.

    Examples
    --------
    >>> compare([1.0, 2.0], [1.0, 2.5], max_abs=0.6, norm_max=1, rel_euclid=1, cosine=0).verdict.outcome
    'pass'
    """
    # Numbers of an array library are numbers; what is none is refused where limits are checked.
    plain = {metric: bound.item() if hasattr(bound, "item") else bound for metric, bound in limits.items()}
    policy = Policy(profile=profile, nan=nan, nan_rule=f'nan="{nan}"', marker=plain)
    if isinstance(left, Pair):
        if right is not None:
            raise ConfigError("a Pair stands for both sides; give no right side beside it")
        return compare_pair(left, policy)
    if right is None:
        raise ConfigError("there is no right side; give the reference as the second argument")
    with ExitStack() as stack:
        left_ref, left_view = opened(left, name, stack)
        right_ref, right_view = opened(right, name, stack)
        pair = Pair(left_ref, right_ref, how="file", transform=Transform(transpose=transpose, reshape=reshape))
        return compare_views(pair, left_view, right_view, policy)


def assert_close(left: Tensor | Pair, right: Tensor | None = None, **options: Any) -> None:
    """Fail, with the gate's failure text, unless the two tensors are within the limits.

    Parameters
    ----------
    left, right, **options
        As `compare` takes them.

    Raises
    ------
    AssertionError
        The verdict is ``fail``, ``undefined`` or ``error``.

    Examples
    --------
    >>> import numpy
    >>> assert_close(numpy.ones(3), numpy.ones(3))
    """
    __tracebackhide__ = True
    record = compare(left, right, **options)
    if record.fails:
        raise AssertionError("\n" + _told(record))


def _told(record: Record) -> str:
    """The failure text of two loose tensors."""
    from pytest_msdump.reporting.failure import failure_text

    return failure_text([record], operators=1, width=_WIDTH)
