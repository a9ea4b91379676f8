"""Our named tuples are the standard library's in all but when ``__new__`` is made."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import typing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcomes import outcome

import pytest_msdump
from pytest_msdump import lazy_tuple

ROOT = Path(pytest_msdump.__file__).parent
VALUES = st.one_of(st.integers(-2, 2), st.sampled_from(["", "a", None, (), (1, "b")]))
NAMES = ("a", "b", "count", "index", "new", "cls", "self_")


class Point(lazy_tuple.NamedTuple):
    """A place."""

    x: int
    y: tuple[int, ...] = ()

    @property
    def doubled(self) -> int:
        """Twice `x`."""
        return 2 * self.x


class Child(Point):
    """Inherits fields."""


def classes(names: list[str], defaults: dict[str, Any]) -> list[Any]:
    """The same class with and without the standard library."""
    made = []
    for base in (typing.NamedTuple, lazy_tuple.NamedTuple):
        lines = [f"{name}: 'int'" + (f" = defaults[{name!r}]" if name in defaults else "") for name in names]
        text = "class Made(base):\n 'Said.'\n " + "\n ".join(lines or ["pass"])
        known: dict[str, Any] = {"base": base, "defaults": defaults, "__name__": __name__}
        exec(text, known)
        made.append(known["Made"])
    return made


def told(one: Any) -> Any:
    return one if isinstance(one, type) else (repr(one), tuple(one), one._asdict(), hash(one))


@pytest.mark.parametrize("uses", [0, 1, lazy_tuple.FEW_USES])
@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from(NAMES), unique=True, max_size=5), st.data())
def test_a_class_does_what_the_standard_librarys_does(uses, names, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lazy_tuple, "FEW_USES", uses)
        check_a_class(names, data)


def check_a_class(names, data):
    some = data.draw(st.integers(0, len(names)))
    defaults = {name: data.draw(VALUES) for name in names[some:]}
    theirs, ours = classes(names, defaults)
    for name in ("_fields", "_field_defaults", "__match_args__", "__slots__", "__doc__", "__module__", "__bases__"):
        assert getattr(ours, name) == getattr(theirs, name)
    word = st.sampled_from([*names, "other"])
    for _ in range(2):
        args = data.draw(st.lists(VALUES, max_size=len(names) + 1))
        kwargs = data.draw(st.dictionaries(word, VALUES, max_size=2))
        their, our = (outcome(partial(cls, *args, **kwargs)) for cls in (theirs, ours))
        assert told(our) == told(their)
        assert told(outcome(partial(ours._make, args))) == told(outcome(partial(theirs._make, args)))
        if isinstance(their, type):
            continue
        assert [getattr(our, name) for name in names] == [getattr(their, name) for name in names]
        assert our == their
        changes = data.draw(st.dictionaries(word, VALUES, max_size=2))
        # What is not a field is a ValueError before Python 3.13, and a TypeError since.
        if "other" in changes:
            assert isinstance(outcome(partial(our._replace, **changes)), type)
        else:
            assert told(our._replace(**changes)) == told(their._replace(**changes))


@pytest.mark.parametrize("one", [Point(1, (2,)), Point(3), Child(4)], ids=repr)
def test_values_are_copied_and_pickled(one):
    assert copy.copy(one) == copy.deepcopy(one) == one
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(one, protocol))
        assert (again, type(again)) == (one, type(one))


class Short(lazy_tuple.NamedTuple):
    """Says itself how it prints."""

    x: int

    def __repr__(self) -> str:
        return f"<{self.x}>"


def test_what_a_class_says_itself_holds():
    assert (repr(Short(3)), str(Short(4))) == ("<3>", "<4>")


def test_methods_and_patterns_know_the_fields():
    assert (Point(2).doubled, Child(x=2, y=(1,)).y) == (4, (1,))
    match Point(5, (6,)):
        case Point(x, y):
            assert (x, y) == (5, (6,))
    with pytest.raises(AttributeError):
        Point(1).x = 2  # type: ignore[misc]
    assert not hasattr(Point(1), "__dict__")


def test_nothing_is_compiled_before_it_pays():
    _, made = classes(["x"], {"x": 1})
    before = made.__new__
    for _ in range(lazy_tuple.FEW_USES):
        assert made().x == 1
        assert made.__new__ is before
    assert made().x == 1
    assert made.__new__ is not before
    assert list(inspect.signature(made.__new__).parameters) == ["_cls", "x"]


def test_a_default_before_a_field_without_one_is_refused():
    with pytest.raises(TypeError, match="without a default"):
        classes_out_of_order()


def classes_out_of_order() -> Any:
    class Wrong(lazy_tuple.NamedTuple):
        x: int = 1
        y: int  # type: ignore[misc]

    return Wrong


def test_a_field_that_is_private_is_refused():
    with pytest.raises(ValueError, match="underscore"):

        class Wrong(lazy_tuple.NamedTuple):
            _x: int  # type: ignore[misc]


def test_no_module_of_ours_makes_named_tuples_at_import():
    """The standard library's would cost every command what this one saves."""
    wrong = [
        path
        for path in ROOT.rglob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ImportFrom) and node.module == "typing" and path.stem != "lazy_tuple"
        if "NamedTuple" in [alias.name for alias in node.names]
    ]
    assert not wrong
