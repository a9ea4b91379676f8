"""Tensors inside of nested values come in one order, whatever holds them."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, namedtuple
from typing import Any

from pytest_msdump.record.calls import leaves, named_leaves

Pair = namedtuple("Pair", "second first")


@dataclasses.dataclass
class Result:
    late: Any
    early: Any = None


@dataclasses.dataclass
class Output(OrderedDict):
    """As transformers have it: the mapping lacks what is None, the fields do not."""

    loss: Any = None
    logits: Any = None

    def __post_init__(self):
        self["logits"] = self.logits


def is_number(value):
    return isinstance(value, float)


def test_a_tensor_alone_is_the_first():
    assert leaves(1.0, is_number) == [1.0]


def test_what_is_no_tensor_takes_no_number():
    assert leaves([None, "text", 1.0, 7, object(), {3.0}, 2.0], is_number) == [1.0, 2.0]


def test_mappings_and_dataclasses_keep_their_own_order():
    assert leaves({"b": 1.0, "a": Result(2.0, Pair(3.0, 4.0))}, is_number) == [1.0, 2.0, 3.0, 4.0]


def test_what_is_mapping_and_dataclass_is_read_as_a_mapping():
    assert list(named_leaves("", Output(9.0, 1.0), is_number)) == [("logits", 1.0)]


def test_a_type_is_no_value():
    assert leaves([Result, 1.0], is_number) == [1.0]


def test_leaves_have_the_names_of_their_places():
    value = {"x": 1.0, "state": (2.0, {"mask": 3.0}), "pair": Pair(4.0, None)}
    assert dict(named_leaves("", value, is_number)) == {
        "x": 1.0,
        "state.0": 2.0,
        "state.1.mask": 3.0,
        "pair.second": 4.0,
    }


def test_a_value_that_holds_itself_ends():
    value: list[Any] = [1.0]
    value.append(value)
    assert set(leaves(value, is_number)) == {1.0}
