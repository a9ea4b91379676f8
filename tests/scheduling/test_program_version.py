"""What tells files and programs apart."""

from __future__ import annotations

import hashlib
import os
from ctypes import CDLL
from dataclasses import replace
from pathlib import Path

import pytest
from kernels import needs_kernel
from scheduling.dumps import LARGE, file_of, write_pairs

import pytest_msdump
from pytest_msdump.capabilities.cache.cache import (
    Stamp,
    bytes_to_read,
    differences,
    files_of,
    stamp,
    state_of,
)
from pytest_msdump.capabilities.cluster.cluster import Cluster
from pytest_msdump.core.compare.planning import Plan, plan
from pytest_msdump.core.compare.user_code import Extras
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.metrics import kernel
from pytest_msdump.core.metrics.kernel import choose_kernel
from pytest_msdump.core.storage.locations import parse_location
from pytest_msdump.core.suite import load_suite

FAR = parse_location("memory://shelf/run", Path())


@pytest.fixture
def planned(tmp_path: Path) -> Plan:
    write_pairs(tmp_path, [LARGE, 3])
    return plan(load_suite(file=None, options={"left": "left", "right": "right"}, directory=tmp_path))


def test_a_state_tells_what_the_system_says_of_the_file_behind_a_link(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    state = state_of(tmp_path / "link")
    found = os.stat(tmp_path / "file")  # noqa: PTH116
    assert state == (5, found.st_mtime_ns, found.st_ctime_ns, found.st_dev, found.st_ino)
    assert state_of(tmp_path / "nothing") is None


def test_of_a_file_far_away_nothing_is_known():
    assert state_of(FAR / "op0.0.1.npy") is None


def test_the_files_of_a_pair_are_those_of_both_sides_and_of_all_their_pieces(planned):
    pair = planned.pairing.pairs[0]
    assert files_of(pair) == (pair.left.source.path, pair.right.source.path)
    assert bytes_to_read(pair) == 2 * (4 * LARGE + 128)
    first, second = pair.left.source.path, file_of(planned.left.root, "op1")
    sliced = replace(pair, left=replace(pair.left, source=replace(pair.left.source, pieces=(first, second))))
    assert files_of(sliced) == (first, second, pair.right.source.path)
    assert bytes_to_read(sliced) == bytes_to_read(pair) + 3 * 4 + 128
    unseen = replace(pair, left=replace(pair.left, reader="statistics"))
    assert bytes_to_read(unseen) == 0


def test_the_stamp_names_the_kernel_that_measures():
    assert stamp().kernel == choose_kernel().name
    assert stamp() == stamp()


def test_the_stamp_says_of_which_source_the_kernel_was_built(monkeypatch):
    """A faulty kernel's records are not taken for those of the mended one."""

    def stamped(source):
        made = kernel.Kernel("compiled", CDLL(None), source)
        monkeypatch.setattr(kernel, "_load", lambda *_: made)
        kernel._kernel.cache_clear()
        return stamp.__wrapped__()

    monkeypatch.setenv(kernel.VARIABLE, "compiled")
    try:
        assert stamped("a") == stamped("a")
        assert stamped("a") != stamped("b")
    finally:
        kernel._kernel.cache_clear()


@needs_kernel
def test_the_kernel_was_built_of_the_source_that_is_here():
    content = (Path(pytest_msdump.__path__[0]) / "core/metrics/kernel.c").read_bytes()
    assert kernel._kernel("compiled").source == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, ""),
        ({"numpy": "9"}, "NumPy 9, not 2"),
        ({"version": "9", "code": "b"}, "pytest-msdump 9, not 1"),
        ({"code": "b"}, "files of pytest-msdump b, not a"),
        ({"kernel": "compiled", "numpy": "9"}, "NumPy 9, not 2, kernel compiled, not numpy"),
    ],
)
def test_what_differs_is_named(changes, sentence):
    one = Stamp("1", "a", "2", "numpy")
    assert differences(replace(one, **changes), one) == sentence


def test_a_cluster_refuses_what_does_not_travel(planned):
    own = replace(planned, extras=Extras(algorithms={"mine": print}))
    with pytest.raises(ConfigError, match="code of -custom does not run"):
        Cluster(own, None, "tcp://there:1")
