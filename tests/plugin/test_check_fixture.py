"""``msdump.check(dump)`` in ordinary tests."""

from __future__ import annotations

from dump_builder import write_reference


def test_a_hit_fails_the_test_with_the_text_of_the_command(pytester):
    write_reference(pytester.path / "run", {"conv1": [1.0], "conv2": [float("nan")]})
    pytester.makepyfile(
        """
        def test_run(msdump):
            msdump.check("run")

        def test_without_overflow(msdump):
            assert msdump.check("run", {"tensor_overflow": "off"}).tensors == 2

        def test_unknown(msdump):
            msdump.check("run", {"tensor_overflw": "off"})
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*AssertionError:*",
            "*HIT  conv2",
            "*output:0  tensor_overflow: the tensor holds NaN or Inf",
            "*1 NaN of 1 element; first at *",
            "*did you mean 'tensor_overflow'*",
        ]
    )
    assert "check_assertion.py" not in result.stdout.str()
