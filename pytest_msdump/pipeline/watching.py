"""Who wants to know how far a long loop is gives a `Watch`; nobody does by default."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

__all__ = ["Watch", "unwatched"]

T = TypeVar("T")


class Watch(Protocol):
    """Yields the items of a loop one by one, and may tell somebody how many are done."""

    def __call__(self, items: Sequence[T], what: str, /) -> Iterable[T]:
        """Return the same items; `what` they are, in the plural."""


def unwatched(items: Sequence[T], what: str, /) -> Iterable[T]:  # noqa: ARG001 - as every Watch
    """Return the items."""
    return items
