from __future__ import annotations

import pytest

from pytest_msdump.core.matching import Address, parse_address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("conv1", Address(None, "conv1")),
        ("conv1:output:0", Address(None, "conv1", "output", 0)),
        ("Default/a-B/C-op0:input:12", Address(None, "Default/a-B/C-op0", "input", 12)),
        # A parameter's name may hold colons; only io:slot at the end is ours.
        ("my_param_x_y_z:0", Address(None, "my_param_x_y_z:0")),
        ("my_param_x_y_z:0:output:0", Address(None, "my_param_x_y_z:0", "output", 0)),
        ("a:input:0:output:1", Address(None, "a:input:0", "output", 1)),
        ("conv1:output", Address(None, "conv1:output")),
        ("conv1:sideways:0", Address(None, "conv1:sideways:0")),
        ("conv1:output:-1", Address(None, "conv1:output:-1")),
        ("conv1:output:٣", Address(None, "conv1:output:٣")),
        (":output:0", Address(None, ":output:0")),
    ],
)
def test_addresses_are_read_from_the_right(text: str, expected: Address) -> None:
    assert parse_address(text) == expected


def test_a_dot_may_be_a_type_and_the_name_itself_stays_the_first_reading() -> None:
    address = parse_address("Parameter.fc1.weight:output:0")
    assert address.op == "Parameter.fc1.weight"
    assert address.typed == Address("Parameter", "fc1.weight", "output", 0)


@pytest.mark.parametrize("text", ["conv1", ".conv1", "conv1."])
def test_without_a_dot_between_two_words_there_is_no_type(text: str) -> None:
    assert parse_address(text).typed is None
