from __future__ import annotations

import pytest

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.matching import Align, parse_align


@pytest.mark.parametrize("text", ["9->0,10->1", "9->0, 10->1", " 9 -> 0 | 10->1 ", "9->0|10 ->1"])
def test_arrows_are_parted_by_commas_or_bars_with_free_spaces(text: str) -> None:
    assert parse_align({"iteration": text}, where="w") == Align(iteration=((9, 0), (10, 1)))


def test_each_coordinate_has_its_own_arrows_and_nets_are_names() -> None:
    align = parse_align({"rank": "4->0", "graph": "1->2", "net": "Net-A->B, C->D"}, where="w")
    assert align == Align(rank=((4, 0),), graph=((1, 2),), net=(("Net-A", "B"), ("C", "D")))


@pytest.mark.parametrize("text", ["", "9", "9-0", "9->", "->0", "9->0,", "a->0", "9->-1", "9->0->1", "9=>0", 9])
def test_unreadable_arrows_say_where_what_and_how(text: object) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_align({"iteration": text}, where="msdump.toml: align")  # type: ignore[dict-item]
    for part in ("msdump.toml: align", "iteration", repr(text), "9->0, 10->1"):
        assert part in str(caught.value)


@pytest.mark.parametrize("mapping", [{"iteration": "9->0, 09->1"}, {"net": "a->b|a->c"}])
def test_two_arrows_from_one_left_value_are_refused(mapping: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="has two arrows"):
        parse_align(mapping, where="w")
