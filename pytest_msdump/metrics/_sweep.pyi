"""What `sweep.c` defines. Kinds of elements are numbers: `swept.KINDS`."""

from typing import Any

import numpy.typing as npt

MOST_WORST: int

_Side = tuple[int, float, float, float, float, float, float]
_Worst = tuple[bool | None, float, int, float, float]

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
    def found(
        self,
    ) -> tuple[
        int,
        int,
        tuple[int, ...],
        _Side,
        _Side,
        tuple[float, ...],
        tuple[int, ...],
        tuple[int, int],
        float,
        tuple[float, int],
        tuple[float, int],
        list[_Worst],
    ]: ...

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
