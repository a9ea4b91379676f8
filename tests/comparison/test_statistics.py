"""Statistics beside the tensors of a run, and in their place."""

from __future__ import annotations

import numpy as np
import pytest
from dump_builder import write_mindspore
from semantics.statistic_files import write_statistics

from pytest_msdump.core.compare.opening import index, open_view
from pytest_msdump.core.errors import TensorFileError

ONES = np.ones((2, 3), "f4")


def tensors(root, *ops, start=1_700_000_000_000_000):
    write_mindspore(
        root, [("Add", f"Default/{op}", "output", 0, ONES) for op in ops], execution_order=False, start=start
    )
    return root


def test_a_dump_of_statistics_alone_has_a_reader_of_its_own(tmp_path):
    path = write_statistics(tmp_path, [("Default_a", ONES)])
    for root in (tmp_path, tmp_path / "rank_0/Net/0", path.parent, path):
        dump = index(root)
        assert (dump.reader, len(dump.refs), dump.unexplained) == ("statistics", 1, ())
    assert index(path.parent).refs[0].key.op.at.iteration == 0


def test_what_was_not_saved_cannot_be_opened_and_that_is_said(tmp_path):
    write_statistics(tmp_path, [("Default_a", ONES)])
    (ref,) = index(tmp_path).refs
    with pytest.raises(TensorFileError, match=r"statistic\.csv: line 2 has statistics of Default_a:output:0"):
        open_view(ref)


def test_occurrences_of_a_loop_have_each_their_own_row(tmp_path):
    for turn in range(2):
        tensors(tmp_path, "a", "b", start=1_700_000_000_000_000 + 1000 * turn)
    tensors(tmp_path, "c", start=1_700_000_000_002_000)
    path = write_statistics(tmp_path, [("Default_a", ONES), ("Default_b", ONES)])
    more = [line.replace("000000,output", "001000,output") for line in path.read_text().splitlines()[1:2]]
    path.write_text(path.read_text() + "".join(f"{line}\n" for line in more))
    rows = {(ref.key.op.name, ref.key.op.at.occurrence): ref.statistics for ref in index(tmp_path).refs}
    assert rows["Default_b", 1] is None
    assert rows["Default_b", 0].source.part == 3
    # By themselves the three rows look like the begin of a second run.
    assert [rows["Default_a", turn].source.part for turn in range(2)] == [2, 4]
