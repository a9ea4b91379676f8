"""What `start.c` defines."""

from pathlib import Path
from typing import TypeVar

FORM: int

_State = TypeVar("_State", bound=tuple[int, ...])

def start(path: Path | str, most: int, whole: bool, kind: type[_State], /) -> tuple[_State, bytes] | None: ...
