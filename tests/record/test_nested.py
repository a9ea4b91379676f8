"""Tensors inside of nested values come in one order, whatever holds them."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from typing import Any

from pytest_msdump.capabilities.record.calls import leaves

Pair = namedtuple("Pair", "second first")


@dataclasses.dataclass
class Result:
    late: Any
    early: Any = None


def is_number(value):
    return isinstance(value, float)


def test_mappings_and_dataclasses_keep_their_own_order():
    assert leaves({"b": 1.0, "a": Result(2.0, Pair(3.0, 4.0))}, is_number) == [1.0, 2.0, 3.0, 4.0]


def test_a_value_that_holds_itself_ends():
    value: list[Any] = [1.0]
    value.append(value)
    assert set(leaves(value, is_number)) == {1.0}
