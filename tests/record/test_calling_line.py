"""The line that is told is the user's, not one of this package or of a framework."""

from __future__ import annotations

import json
from inspect import currentframe
from types import ModuleType

from pytest_msdump.record.calls import calling_line


def line_number():
    frame = currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_the_line_of_the_caller_is_told():
    assert calling_line() == f"{__file__}:{line_number()}"


def test_frames_of_a_framework_are_passed_over():
    seen: list[str | None] = []

    class Asks(dict):
        def items(self):
            seen.extend([calling_line(), calling_line("json")])
            return super().items()

    # The encoder in Python calls items() from inside of json's own folder.
    json.JSONEncoder(indent=1).encode(Asks(a=1))
    assert json.__file__
    assert [place.rpartition(":")[0] for place in seen if place] == [__file__, __file__]
    inner = compile("seen.append(calling_line('fake'))", f"{json.__file__.rpartition('/')[0]}/made_up.py", "exec")
    names = {"seen": seen, "calling_line": lambda _: calling_line("json")}
    module = ModuleType("made_up")
    module.__dict__.update(names)
    exec(inner, module.__dict__)
    assert seen[-1] == f"{__file__}:{names['calling_line'].__code__.co_firstlineno}"


def test_a_framework_that_is_not_loaded_hides_nothing():
    assert calling_line("no_such_framework") == f"{__file__}:{line_number()}"
