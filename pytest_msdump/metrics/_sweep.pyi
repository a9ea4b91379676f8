"""What `sweep.c` defines. Kinds of elements are numbers: `terms.KINDS`."""

from typing import Any

import numpy.typing as npt

from pytest_msdump.metrics.kernel import Partial
from pytest_msdump.metrics.moments import Moments
from pytest_msdump.metrics.nonfinite import Classes
from pytest_msdump.metrics.pointwise import Errors
from pytest_msdump.metrics.sums import Peak, Sum
from pytest_msdump.metrics.terms import Terms
from pytest_msdump.metrics.worst import Candidate
from pytest_msdump.model.numbers import Numbers

MOST_WORST: int

# The first stored element, and length and stride of each axis in C order; no axes where elements lie in this order.
Layout = tuple[int, tuple[tuple[int, int], ...]]
_Types = tuple[type[Partial], type[Classes], type[Moments], type[Sum], type[Peak], type[Errors], type[Candidate]]

class Sweep:
    def __new__(
        cls,
        left: int,
        right: int,
        rtol: float,
        atol: float,
        maximum: float,
        worst: int,
        compare_bits: bool,
        /,
    ) -> Sweep: ...
    def add(self, left: npt.NDArray[Any], right: npt.NDArray[Any], start: int, /) -> bool: ...
    def found(self, types: _Types, /) -> Partial: ...
    def numbers(
        self, left: npt.NDArray[Any], right: npt.NDArray[Any], shape: tuple[int, ...], /
    ) -> tuple[int, Numbers] | None: ...

class Alike:
    def __new__(cls, terms: Terms, shape: tuple[int, ...], left: Layout, right: Layout, /) -> Alike: ...
    def numbers(
        self, left: bytes, left_start: int, right: bytes, right_start: int, /
    ) -> tuple[int, Numbers] | None: ...

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
