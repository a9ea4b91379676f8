"""-alg and -a: the vendor's numbers, its names, and a user's own."""

from __future__ import annotations

import pytest

from pytest_msdump.capabilities.compat.arguments import chosen_algorithms
from pytest_msdump.core.errors import UnknownNameError

TEN = (
    "cosine_similarity",
    "max_absolute_error",
    "accumulated_relative_error",
    "relative_euclidean_distance",
    "kl_divergence",
    "standard_deviation",
    "mean_absolute_error",
    "root_mean_square_error",
    "max_relative_error",
    "mean_relative_error",
)


@pytest.mark.parametrize("place", range(10))
def test_the_vendors_numbers_are_the_vendors(place):
    assert chosen_algorithms(str(place), []) == (TEN[place],)


@pytest.mark.parametrize("text", ["Nothing", "10", "-1", "0,,1", "cosinesimilarity"])
def test_an_unknown_algorithm_is_refused_and_all_known_are_listed(text):
    with pytest.raises(UnknownNameError) as caught:
        chosen_algorithms(text, ["Mine"])
    assert "known: 0=CosineSimilarity, 1=MaxAbsoluteError" in str(caught.value)
    assert "9=MeanRelativeError, Mine" in str(caught.value)
