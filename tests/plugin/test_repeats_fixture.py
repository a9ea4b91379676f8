"""``msdump_repeats`` in ordinary tests."""

from __future__ import annotations


def test_runs_that_differ_fail_the_test_with_the_operator(pytester):
    pytester.makepyfile(
        """
        import itertools

        import numpy
        import pytest
        from pytest_msdump.record import DumpWriter

        numbers = itertools.count()

        def run(directory, changes=False):
            with DumpWriter(directory) as writer:
                writer.write("a", numpy.zeros(2), op_type="Conv2d")
                writer.write("b", numpy.array([next(numbers) if changes else 0]), op_type="Sum", line="net.py:7")

        def test_equal(msdump_repeats):
            found = msdump_repeats(run, n=20)
            assert found.is_equal and found.differences == () and found.runs == 20

        def test_differs(msdump_repeats):
            msdump_repeats(lambda directory: run(directory, changes=True))

        def test_its_own_error(msdump_repeats):
            with pytest.raises(ZeroDivisionError):
                msdump_repeats(lambda directory: 1 / 0)

        def test_nothing(msdump_repeats):
            msdump_repeats(lambda directory: directory.mkdir(parents=True))
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*AssertionError: 3 runs, 2 tensors each: 1 differs between runs",
            "*first: b:output:0 (Sum) differs from run 1 in runs 2, 3, made at net.py:7",
            "*ConfigError: run 1 of 3: *holds no tensor*",
        ]
    )
