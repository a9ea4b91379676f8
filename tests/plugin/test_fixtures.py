"""Fixtures, markers and helpers in ordinary tests."""

from __future__ import annotations

import numpy as np
import pytest
from dump_builder import write_reference
from plugin.suites import write_suite


@pytest.fixture
def dumps(pytester, lenet):
    write_suite(pytester.path / "msdump.toml", lenet, "target_bad")
    return pytester


def test_the_two_sides_and_their_pairs_are_fixtures(dumps):
    dumps.makepyfile(
        """
        def test_sides(msdump_left, msdump_right, msdump_pairs):
            assert msdump_left["Default/conv1-Conv2d/BiasAdd-op0:output:0"].key.op.op_type == "BiasAdd"
            assert msdump_right.read("conv1").shape == (2, 6, 24, 24)
            assert len(msdump_pairs) == 10

        def test_first_pair_is_close(msdump, msdump_pairs):
            msdump.assert_close(msdump_pairs[0])

        def test_conv2_is_not(msdump, msdump_pairs):
            msdump.assert_close(msdump_pairs[3])
        """
    )
    result = dumps.runpytest("-k", "sides or first_pair or conv2_is_not")
    result.assert_outcomes(passed=2, failed=1, deselected=11)
    result.stdout.fnmatch_lines(["*DRIFT  Default/conv2-Conv2d/BiasAdd-op0:output:0", "*would pass*"])


def test_without_dumps_the_fixtures_say_what_to_do(pytester):
    pytester.makepyfile("def test_sides(msdump_left): pass")
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*give --msdump-left and --msdump-right*"])


def test_fixtures_can_be_overridden(pytester, lenet):
    pytester.makeconftest(
        f"""
        import pytest
        from pytest_msdump import open_dump

        @pytest.fixture(scope="session")
        def msdump_left():
            return open_dump({str(lenet / "target")!r})

        @pytest.fixture(scope="session")
        def msdump_right():
            return open_dump({str(lenet / "target_bad")!r})
        """
    )
    pytester.makepyfile("def test_pairs(msdump_pairs): assert len(msdump_pairs) == 23")
    pytester.runpytest().assert_outcomes(passed=1)


def test_the_marker_sets_profile_and_limits_of_one_test(dumps):
    dumps.makepyfile(
        """
        import pytest

        @pytest.mark.msdump(profile="torch")
        def test_torch(msdump):
            msdump.assert_close([1.0, 2.0], [1.0, 2.1])

        @pytest.mark.msdump(cosine=0.3, rel_euclid=2, norm_max=2)
        def test_generous(msdump, msdump_pairs):
            msdump.assert_close(msdump_pairs[3])

        @pytest.mark.msdump(cosin=0.3)
        def test_misspelled(msdump):
            msdump.assert_close([1.0], [1.0])
        """
    )
    result = dumps.runpytest("-k", "torch or generous or misspelled")
    result.assert_outcomes(passed=1, failed=2, deselected=11)
    result.stdout.fnmatch_lines(["*allclose*profile torch (float64)*", "*'cosin'*did you mean 'cosine'?*"])


def test_the_marker_msdump_pairs_runs_a_test_once_for_each_pair(pytester, lenet):
    pytester.makepyfile(
        f"""
        import pytest

        LEFT, RIGHT = {str(lenet / "target")!r}, {str(lenet / "target_bad")!r}

        @pytest.mark.msdump_pairs(left=LEFT, right=RIGHT, select=["*conv*"])
        def test_pair(msdump, msdump_pair):
            msdump.assert_close(msdump_pair)
        """
    )
    result = pytester.runpytest("-v")
    result.assert_outcomes(passed=6, failed=2)
    result.stdout.fnmatch_lines(["*test_pair[[]Default/conv2-Conv2d/BiasAdd-op0:output:0[]] FAILED*"])


def test_a_marker_that_pairs_nothing_fails_instead_of_skipping(pytester, lenet):
    write_reference(pytester.path / "other", {"elsewhere": np.zeros(3)})
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.msdump_pairs(left={str(lenet / "target")!r}, right="other")
        def test_pair(msdump, msdump_pair):
            msdump.assert_close(msdump_pair)
        """
    )
    result = pytester.runpytest()
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*nothing was paired*"])
