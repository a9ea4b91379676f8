"""What was measured of one pair. Numbers only, no opinion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_msdump.text import Message

__all__ = ["Comparison", "CustomResult", "Measurement", "Nonfinite", "Scalar", "WorstElement"]

# An element as a report prints it: exact integers stay integers, complex numbers are (real, imaginary).
Scalar = bool | int | float | complex


class Measurement(NamedTuple):
    """One metric's number, or why it has none.

    Parameters
    ----------
    metric : str
        An id of `facts.metrics`.
    value : float, int or tuple of float, optional
        The number. `standard_deviation` holds (mean left, deviation left, mean right, deviation right).
        Exact integers are `int`. ``None`` when undefined.
    undefined : Message, optional
        Why there is no number, as the end of a sentence: "all elements of the left side are 0".
    applies : bool
        False when the metric does not apply (cosine of a one-element tensor): its limit is skipped, and that is said.
    where : tuple of int, optional
        Logical index of the element that made the number, for maxima; first position for counts.
    """

    metric: str
    value: float | int | tuple[float, ...] | None = None
    undefined: Message | None = None
    applies: bool = True
    where: tuple[int, ...] | None = None


class Nonfinite(NamedTuple):
    """How many elements are NaN or Inf, and on which side.

    `nan_both` and `inf_both` count positions that hold the same class on both sides (Inf of the same sign);
    `nan_left` a NaN on the left where the right has none, and so on: +Inf against −Inf counts in `inf_left` and
    `inf_right`. `mismatch` counts the positions where the classes differ, each once; `first_mismatch` is the index of
    the first. `saturated` counts finite left elements at their dtype's maximum where the right is finite and different.
    """

    nan_both: int = 0
    nan_left: int = 0
    nan_right: int = 0
    inf_both: int = 0
    inf_left: int = 0
    inf_right: int = 0
    saturated: int = 0
    mismatch: int = 0
    first_mismatch: tuple[int, ...] | None = None
    first_nonfinite: tuple[int, ...] | None = None


class WorstElement(NamedTuple):
    """An element that differs: its logical index, both values, and |l−r| / (atol + rtol·|r|)."""

    # Hides the method of tuples, which nobody needs here.
    index: tuple[int, ...]  # type: ignore[assignment]
    left: Scalar
    right: Scalar
    ratio: float


@dataclass(frozen=True, slots=True)
class CustomResult:
    """What a user's own algorithm returned: two texts. It has no limit and no part in the verdict."""

    value: str
    message: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """All numbers of one pair.

    Parameters
    ----------
    elements : int
        Number of elements compared (each side has as many).
    finite : int
        Positions where both sides are finite; the finite metrics are taken over these.
    differing : int
        Positions whose values (or NaN/Inf classes) differ; 0 means `equal`.
    right_zero_mismatch : int
        Positions with right = 0 ≠ left, left out of the relative errors; those of `near_zero` are not among them.
    rtol, atol : float
        The element-wise tolerance that `worst` and the metric `allclose` were measured with.
    total_elements : int, optional
        How many elements each side has, when only the first `elements` of them were looked at.
    sampled : bool
        Whether a side is a sample; where `total_elements` is ``None``, nobody knows of how many.
    near_zero : int
        Positions where one side is 0 and the other at most two units of the coarser type's smallest number above 0:
        zeros for the relative errors.
    coarser : tuple of str or None
        Of the left and of the right: the coarser type that all of its values are of, see `metrics.coarser`. In saved
        results a remark says so.
    """

    elements: int
    finite: int
    differing: int
    right_zero_mismatch: int
    measurements: Mapping[str, Measurement]
    nonfinite: Nonfinite
    worst: tuple[WorstElement, ...] = ()
    rtol: float = 0.0
    atol: float = 0.0
    absolute_error_sum: float | int | None = None
    vendor: Mapping[str, float] = field(default_factory=dict)
    total_elements: int | None = None
    sampled: bool = False
    near_zero: int = 0
    coarser: tuple[str | None, str | None] = (None, None)

    @property
    def equal(self) -> bool:
        """Whether every position holds the same value or the same NaN/Inf class. True of empty pairs."""
        return self.differing == 0

    @property
    def values(self) -> dict[str, float | int | tuple[float, ...]]:
        """The number of each metric that has one."""
        return {name: one.value for name, one in self.measurements.items() if one.value is not None}

    @property
    def undefined(self) -> dict[str, Message | None]:
        """Why each of the other metrics that apply has no number."""
        return {
            name: one.undefined
            for name, one in self.measurements.items()
            if one.applies and (one.value is None or one.undefined is not None)
        }

    @property
    def not_applicable(self) -> dict[str, Message | None]:
        """Why each of the metrics that do not apply does not."""
        return {name: one.undefined for name, one in self.measurements.items() if not one.applies}

    @property
    def places(self) -> dict[str, tuple[int, ...]]:
        """The index of the element that made a metric's number."""
        return {name: one.where for name, one in self.measurements.items() if one.where is not None}
