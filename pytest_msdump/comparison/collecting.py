"""Holds back the search for circles of objects while very many are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_at_rest", "left_to_the_end", "past_set_aside"]

# So many objects more than before are searched for circles, not some hundreds: what is made of a pair stays.
_SELDOM = 100_000


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Keep Python's cyclic garbage collector from running inside; what is counted as alive is not searched meanwhile.

    Notes
    -----
    A plan is some thirty objects for each tensor, none of them garbage. The collector would go through all of them
    again and again while they are made, which takes a quarter of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            _promote()
            gc.enable()


def _promote() -> None:
    """Count what was made as old, without going through it: who freezes objects for other reasons keeps them frozen."""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()


@contextmanager
def past_set_aside() -> Iterator[None]:
    """Let the collector search inside only what is made inside: what was there before stays, as a plan does.

    Notes
    -----
    All is searched whenever a quarter more has come to it: a plan of 40,000 pairs takes a third of a second each time.
    What was just made is searched more seldom, too.
    """
    often, *others = gc.get_threshold()
    is_ours = not gc.get_freeze_count()
    if is_ours:
        gc.freeze()
    # Zero is for who wants no search at all.
    gc.set_threshold(often and max(often, _SELDOM), *others)
    try:
        yield
    finally:
        gc.set_threshold(often, *others)
        if is_ours:
            gc.unfreeze()


def left_to_the_end(*things: object) -> None:
    """Let things be until the process ends, which takes their memory all at once.

    Notes
    -----
    To take apart the plan and the records of 4,000 pairs, object by object, is a fortieth of a run; nobody waits for
    it. What holds itself is left to the collector, which does not look any more where `gc.freeze` is the last word.
    """
    held = [*things]
    held.append(held)
