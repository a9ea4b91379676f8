"""The line that is told is the user's, not one of this package or of a framework."""

from inspect import currentframe

from pytest_msdump.capabilities.record.calls import calling_line


def line_number():
    frame = currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_a_framework_that_is_not_loaded_hides_nothing():
    assert calling_line("no_such_framework") == f"{__file__}:{line_number()}"
