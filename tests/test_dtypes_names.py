"""Data types by name: one spelling, one order of coarseness."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_msdump.core.dtypes import canonical, coarser
from pytest_msdump.core.errors import ConfigError


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("half", "float16"),
        ("DOUBLE", "float64"),
        ("Bf16", "bfloat16"),
        ("float", "float32"),
        ("Float8E4M3FN", "float8_e4m3fn"),
        ("Float8E5M2", "float8_e5m2"),
        ("HiFloat8", "hifloat8"),
        ("Int4", "int4"),
        ("String", "string"),
    ],
)
def test_aliases_are_known_in_any_case(written, name):
    assert canonical(written) == name


@pytest.mark.parametrize("written", ["Int3", "HiFloat", "Float8", "", "float 32", "str"])
def test_unknown_types_have_no_name(written):
    assert canonical(written) is None


# The contract's order, coarsest last; a later one wins over an earlier one from either side.
@pytest.mark.parametrize(
    "finest_first",
    [
        ("float64", "float32", "float16", "bfloat16"),
        ("complex128", "complex64", "float16"),
        ("complex128", "float32"),
        ("float64", "complex64", "bfloat16"),
        ("int64", "float64"),
        ("bool", "float16"),
        ("uint8", "complex128"),
        ("bool", "int8", "int16", "uint32", "int64"),
        ("bool", "uint1", "int2", "int4", "int8"),
        ("float32", "bfloat16", "float8_e4m3fn", "hifloat8", "float8_e5m2", "float8_e8m0"),
        ("complex128", "complex64", "complex32", "bfloat16"),
        ("string", "bool", "float64"),
    ],
    ids=" < ".join,
)
def test_the_coarser_side_wins_from_either_side(finest_first):
    for place, fine in enumerate(finest_first):
        for coarse in finest_first[place:]:
            assert coarser(fine, coarse) == coarse
            assert coarser(coarse, fine) == coarse


def test_unknown_type_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="unknown data type 'flaot32'; did you mean 'float32'"):
        coarser("float16", "flaot32")


@pytest.mark.e2e
def test_names_need_no_numpy():
    code = "import sys; import pytest_msdump.core.dtypes; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
