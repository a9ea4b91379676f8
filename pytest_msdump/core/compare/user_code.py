"""What only a command line may add to a comparison: a user's own code, a look at a part only; and progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar


@dataclass(frozen=True)
class Extras:
    """What a command line adds; code of a user runs only when its directory was named there (INTERFACE 8)."""

    converters: Mapping[tuple[str, str], Callable[..., Any]] = field(default_factory=dict)
    algorithms: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    arguments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    first: int | None = None
    files: tuple[Path, ...] = ()
    spread: str = "none"

    @property
    def sentences(self) -> tuple[str, ...]:
        """What reports say of it; empty when there is nothing to say."""
        code = f"ran user code: {', '.join(map(str, self.files))}" if self.files else ""
        part = "" if self.first is None else f"looked at no more than the first {self.first} elements of each tensor"
        return tuple(filter(None, (code, part)))


NO_EXTRAS = Extras()


T = TypeVar("T")


class Watch(Protocol):
    """Yields the items of a loop one by one, and may show how many are done."""

    def __call__(self, items: Iterable[T], what: str, total: int | None = None, /) -> Iterator[T]:
        """Yield the same items; `what` names them, in the plural; `total` is needed for items without a length."""


def unwatched(items: Iterable[T], what: str, total: int | None = None, /) -> Iterator[T]:  # noqa: ARG001 - as every Watch
    """Yield the items."""
    return iter(items)
