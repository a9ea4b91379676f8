"""What `sweep.c` defines. Kinds of elements are numbers: `swept.KINDS`."""

from typing import Any

import numpy.typing as npt

from pytest_msdump.metrics.kernel import Partial
from pytest_msdump.metrics.moments import Moments
from pytest_msdump.metrics.nonfinite import Classes
from pytest_msdump.metrics.pointwise import Errors
from pytest_msdump.metrics.sums import Peak, Sum
from pytest_msdump.metrics.worst import Candidate

MOST_WORST: int

_Types = tuple[type[Partial], type[Classes], type[Moments], type[Sum], type[Peak], type[Errors], type[Candidate]]

class Sweep:
    def __new__(
        cls,
        left: int,
        right: int,
        rtol: float,
        atol: float,
        maximum: float,
        near_zero: float,
        worst: int,
        compare_bits: bool,
        /,
    ) -> Sweep: ...
    def add(self, left: npt.NDArray[Any], right: npt.NDArray[Any], start: int, /) -> bool: ...
    def found(self, types: _Types, /) -> Partial: ...

class Divergence:
    def __new__(
        cls,
        left: int,
        right: int,
        left_minimum: float,
        left_width: float,
        right_minimum: float,
        right_width: float,
        all_finite: bool,
        /,
    ) -> Divergence: ...
    def add(self, left: npt.NDArray[Any], right: npt.NDArray[Any], /) -> None: ...
    def found(self) -> tuple[float, float, float, float, float, float]: ...
