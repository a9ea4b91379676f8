"""Overflow by statistics, where the tensors themselves were not saved."""

from __future__ import annotations

import numpy as np
import pytest
from dump_builder import write_mindspore

from pytest_msdump import assert_no_overflow, cli

TITLES = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape"


def table(root, columns, values, dtype="float32"):
    folder = root / "rank_0" / "Net" / "0" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    row = f'Mul,Default/Mul-op9,0,0,1700000000000900,output,0,16,{dtype},"(4)"'
    (folder / "statistic.csv").write_text(f"{TITLES},{columns}\n{row},{values}\n")
    return root


CASES = [
    ("Max Value,Min Value,NaN Count,Negative Inf Count,Positive Inf Count", "3,-1,2,0,1", "float32", "2 NaN, 1 Inf"),
    ("Max Value,Min Value,L2Norm Value", "3,-1,nan", "float32", "1 NaN"),
    ("Max Value,Min Value,L2Norm Value", "3,-1,inf", "float32", "1 Inf"),
    ("Max Value,Min Value,L2Norm Value", "65504,-1,65504", "float16", "1 at the dtype's maximum"),
    ("Max Value,Min Value,L2Norm Value", "65504,-65504,92637", "float16", "2 at the dtype's maximum"),
    ("Max Value,Min Value,L2Norm Value", "65504,-1,65504", "float32", None),
    ("Max Value,NaN Count,Negative Inf Count,Positive Inf Count", "3,0,0,0", "float32", None),
]


@pytest.mark.parametrize(("columns", "values", "dtype", "told"), CASES)
def test_what_statistics_tell_counts(tmp_path, capsys, columns, values, dtype, told):
    root = table(tmp_path, columns, values, dtype)
    if told is None:
        assert_no_overflow(root)
        assert cli.main(["overflow", str(root)]) == 0
        return
    expected = f"{told} of 4 elements; the tensor itself was not saved"
    with pytest.raises(AssertionError, match=f"1 of 1 tensors overflow .*\n  Default/Mul-op9:output:0: {expected}"):
        assert_no_overflow(root)
    assert cli.main(["overflow", str(root)]) == 1
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize("columns", ["Max Value", "NaN Count", "NaN Count,Positive Inf Count"])
def test_statistics_that_do_not_tell_are_no_clean_bill(tmp_path, capsys, columns):
    root = table(tmp_path, columns, ",".join("0" for _ in columns.split(",")))
    with pytest.raises(AssertionError, match="do not show whether it has NaN or Inf"):
        assert_no_overflow(root)
    assert cli.main(["overflow", str(root)]) == 1
    assert "UNREADABLE" in capsys.readouterr().out


def test_a_tensor_that_was_saved_counts_by_itself(tmp_path):
    write_mindspore(tmp_path, [("Mul", "Default/Mul-op9", "output", 0, np.ones(4, "<f4"))], start=1700000000000900)
    table(tmp_path, "NaN Count,Negative Inf Count,Positive Inf Count", "4,0,0")
    assert_no_overflow(tmp_path)
