"""What `form.c` defines."""

from collections.abc import Callable
from typing import Any

FORM: int

def filled(
    form: str,
    values: tuple[Any, ...],
    otherwise: Callable[[Any], str],
    power: Callable[[int], tuple[int, int]],
    /,
) -> str: ...
