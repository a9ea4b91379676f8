"""What is told at a glance of a model or a name is what going through all of it tells."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.graphs import ge_model
from pytest_msdump.core.model.dump import Edge, Operator, file_spelling, joined_spelling
from pytest_msdump.core.model.tensor import mangle

names = st.text(alphabet="ab_.:/\\ -", max_size=8)
models = st.lists(st.lists(st.integers(0, 7), max_size=3), max_size=7)


def reachable(start: int, feeds: list[set[int]]) -> set[int]:
    """Return who is behind an operator, itself only if it is on a circle."""
    found: set[int] = set()
    waiting = [start]
    while waiting:
        fresh = feeds[waiting.pop()] - found
        found |= fresh
        waiting += fresh
    return found


@settings(deadline=None, max_examples=300)
@given(models)
def test_circles_are_found_whatever_order_the_file_has(inputs):
    """Number 7 is no operator of the model. An operator counts on a circle, or behind one and before another."""
    operators = [
        Operator(f"op{n}", "Add", inputs=tuple(Edge(f"op{p}", 0) for p in each)) for n, each in enumerate(inputs)
    ]
    feeds = [{m for m, each in enumerate(inputs) if n in each} for n in range(len(inputs))]
    behind = [reachable(n, feeds) for n in range(len(inputs))]
    rings = {n for n, found in enumerate(behind) if n in found}
    expected = {
        n for n in range(len(inputs)) if any(n in behind[r] for r in rings) and (n in rings or behind[n] & rings)
    }
    assert ge_model.operators_in_circles(operators) == tuple(f"op{n}" for n in sorted(expected))


@settings(deadline=None, max_examples=500)
@given(names)
def test_names_are_spelled_as_a_regular_expression_would(name):
    assert mangle(name) == re.sub(r"[./\\ ]", "_", name)
    assert file_spelling(name) == re.sub(r"[./\\ :]", "_", name)
    run = re.search(r"[./\\ :]{2,}", name)
    assert joined_spelling(name) == (re.sub(r"[./\\ :]", "_", re.sub(r"[./\\ :]{2,}", "_", name)) if run else None)
