"""Who wants to know how far a long loop is gives a `Watch`; nobody does by default."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

__all__ = ["Watch", "unwatched"]

T = TypeVar("T")


class Watch(Protocol):
    """Yields the items of a loop one by one, and may tell somebody how many are done."""

    def __call__(self, items: Iterable[T], what: str, total: int | None = None, /) -> Iterator[T]:
        """Yield the same items; `what` they are, in the plural, and how many, where they do not know themselves."""


def unwatched(items: Iterable[T], what: str, total: int | None = None, /) -> Iterator[T]:  # noqa: ARG001 - as every Watch
    """Yield the items."""
    return iter(items)
