"""A run that passes says in a few lines why tensors were left alone."""

from __future__ import annotations

import numpy as np
from dump_builder import write_reference
from semantics.gate import ask


def dump(root, names):
    write_reference(root, dict.fromkeys(names, np.ones(3)))
    return root


def test_reasons_are_counted_the_commonest_first(tmp_path):
    left = dump(tmp_path / "left", ["a", "b", "c"])
    right = dump(tmp_path / "right", ["a", "b", "c", "x", "y", "a:1"])
    answer = ask(left, right)
    assert answer.code == 0
    assert (
        "without a partner: 3 right 2 right: no operator of that name on the left side "
        "1 right: a on the left side has no output:1; it has output:0 not compared: a:output:1, x, y 3 tensors: 3 pass"
    ) in answer.text


def test_many_reasons_are_counted_and_not_listed(tmp_path):
    left = dump(tmp_path / "left", list("abcde"))
    right = dump(tmp_path / "right", [*"abcde", "a:1", "b:1", "c:1", "d:1", "e:1"])
    assert "1 right: c on the left side has no output:1; it has output:0 2: 2 more reasons, see results.json" in (
        ask(left, right).text
    )


def test_what_fails_coverage_is_told_there_and_once(tmp_path):
    left, right = dump(tmp_path / "left", ["a"]), dump(tmp_path / "right", ["a", "x"])
    answer = ask(left, right, "--min-coverage", "90")
    assert answer.code == 1
    assert answer.text.count("no operator of that name on the left side") == 1
