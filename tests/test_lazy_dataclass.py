"""Our dataclasses are the standard library's in all but when their methods are made."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcomes import outcome

import pytest_msdump
from pytest_msdump import lazy_dataclass

ROOT = Path(pytest_msdump.__file__).parent
NOTHING = object()
VALUES = st.one_of(st.integers(-2, 2), st.sampled_from(["", "a", None, (), (1, "b")]))
# How a field is said: by its default, by a factory, by neither; and in what it takes part.
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "default": VALUES,
        "default_factory": st.sampled_from([list, dict, tuple]),
        "repr": st.booleans(),
        "compare": st.booleans(),
        "hash": st.sampled_from([None, True, False]),
        "init": st.booleans(),
    },
).filter(lambda said: not {"default", "default_factory"} <= set(said))
FLAGS = st.fixed_dictionaries({"frozen": st.booleans(), "slots": st.booleans(), "eq": st.booleans()})


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: tuple[int, ...] = ()
    seen: dict[str, int] = lazy_dataclass.field(default_factory=dict, hash=False)


@lazy_dataclass.dataclass(frozen=True)
class Open:
    x: int = 1


@lazy_dataclass.dataclass(slots=True)
class Growing:
    x: int
    total: int = lazy_dataclass.field(init=False)

    def __post_init__(self) -> None:
        self.total = self.x + 1


def classes(said: dict[str, dict[str, Any]], flags: dict[str, bool], parent: dict[str, dict[str, Any]]) -> list[type]:
    """The same class with and without the standard library, inheriting the same fields."""
    made = []
    for module in (dataclasses, lazy_dataclass):
        bases: tuple[type, ...] = ()
        for fields, name in ((parent, "Parent"), (said, "Made")):
            namespace = {name: module.field(**how) if how else NOTHING for name, how in fields.items()}
            namespace = {name: one for name, one in namespace.items() if one is not NOTHING}
            members = {"__annotations__": dict.fromkeys(fields, "int"), "__doc__": "Said.", "__module__": __name__}
            bases = (module.dataclass(**flags)(type(name, bases, {**members, **namespace})),)
        made.append(bases[0])
    return made


def seen_of(one: object, names: list[str]) -> list[Any]:
    return [outcome(lambda: repr(one)), *(getattr(one, name, NOTHING) for name in names), outcome(lambda: hash(one))]


def ordered(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fields that must be given come first."""
    return sorted(said, key=lambda how: how.get("init", True) and bool({"default", "default_factory"} & set(how)))


@pytest.mark.parametrize("uses", [0, 1, lazy_dataclass.FEW_USES])
@settings(deadline=None, max_examples=100)
@given(st.lists(FIELDS, max_size=4), st.lists(FIELDS, max_size=2), FLAGS, st.data())
def test_a_class_does_what_the_standard_librarys_does(uses, said, parent, flags, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lazy_dataclass, "FEW_USES", uses)
        check_a_class(said, parent, flags, data)


def check_a_class(said, parent, flags, data):
    every = ordered([*parent, *said])
    named = [(f"f{number}", how) for number, how in enumerate(every)]
    names = [name for name, _ in named]
    theirs, ours = classes(dict(named[len(parent) :]), flags, dict(named[: len(parent)]))
    assert inspect.signature(ours).parameters.keys() == inspect.signature(theirs).parameters.keys()
    assert ours.__match_args__ == theirs.__match_args__
    assert [one.name for one in dataclasses.fields(ours)] == [one.name for one in dataclasses.fields(theirs)]
    pairs = []
    for _ in range(2):
        args = data.draw(st.lists(VALUES, max_size=len(names)))
        kwargs = data.draw(st.dictionaries(st.sampled_from([*names, "other"]), VALUES, max_size=2))
        their, our = (outcome(partial(cls, *args, **kwargs)) for cls in (theirs, ours))
        if isinstance(their, type):
            assert our is their
            continue
        their_seen, our_seen = seen_of(their, names), seen_of(our, names)
        # Without `eq` the hash is the identity.
        assert our_seen[:-1] == their_seen[:-1]
        assert our_seen[-1] == their_seen[-1] or not flags["eq"]
        pairs.append((their, our))
        changes = data.draw(st.dictionaries(st.sampled_from([*names, "other"]), VALUES, max_size=2))
        their_new = outcome(partial(dataclasses.replace, their, **changes))
        our_new = outcome(partial(lazy_dataclass.replace, our, **changes))
        if isinstance(their_new, type):
            assert our_new is their_new
        else:
            assert seen_of(our_new, names)[:-1] == seen_of(their_new, names)[:-1]
    if len(pairs) > 1:
        (their, our), (their_other, our_other) = pairs
        assert outcome(lambda: our == our_other) == outcome(lambda: their == their_other)
        assert outcome(lambda: our != their)


@pytest.mark.parametrize("one", [Point(1, (2,), {"a": 1}), Open(3), Growing(4)], ids=lambda one: type(one).__name__)
def test_values_are_copied_pickled_and_taken_apart(one):
    assert copy.copy(one) == copy.deepcopy(one) == one
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(one, protocol)) == one
    assert dataclasses.asdict(one) == {name: getattr(one, name) for name in dataclasses.asdict(one)}
    assert dataclasses.is_dataclass(one)
    assert lazy_dataclass.replace(one, x=9).x == dataclasses.replace(one, x=9).x == 9


@pytest.mark.parametrize("one", [Point(1), Open(1)], ids=["slots", "open"])
def test_a_frozen_value_cannot_be_changed(one):
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        one.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del one.x
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.new = 2
    assert one.x == 1


def test_slots_leave_no_room_for_other_attributes():
    assert not hasattr(Point(1), "__dict__")
    with pytest.raises(AttributeError):
        Growing(1).new = 2  # type: ignore[attr-defined]


def test_a_factory_is_asked_for_each_value():
    assert Point(1).seen is not Point(1).seen


def test_a_shared_mutable_default_is_refused():
    with pytest.raises(ValueError, match=r"mutable default of Wrong\.x"):
        lazy_dataclass.dataclass(type("Wrong", (), {"__annotations__": {"x": "list"}, "x": []}))


def test_annotations_that_are_no_text_are_refused():
    with pytest.raises(TypeError, match="annotations"):
        lazy_dataclass.dataclass(type("Wrong", (), {"__annotations__": {"x": int}}))


def test_a_class_variable_is_no_field():
    made = lazy_dataclass.dataclass(type("Made", (), {"__annotations__": {"x": "ClassVar[int]", "y": "int"}, "x": 1}))
    assert (made(2).y, made.x, made.__match_args__) == (2, 1, ("y",))


def test_another_packages_dataclass_can_be_replaced_and_can_inherit():
    @dataclasses.dataclass(frozen=True)
    class Child(Open):
        y: int = 2

    assert lazy_dataclass.replace(Child(), y=3) == Child(1, 3)


def test_nothing_is_compiled_before_it_pays():
    made = lazy_dataclass.dataclass(type("Made", (), {"__annotations__": {"x": "int"}}))
    before = made.__init__
    for number in range(lazy_dataclass.FEW_USES):
        assert made(x=number).x == number
        assert made.__init__ is before
    assert made(x=-1).x == -1
    assert made.__init__ is not before
    assert made.__init__.__code__.co_varnames == ("self", "x")


def test_no_module_of_ours_makes_dataclasses_at_import():
    """The standard library's would cost every command what this one saves."""
    wrong = []
    for path in ROOT.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            if path.stem != "lazy_dataclass" and {"dataclass", "field", "replace"} & set(names):
                wrong += [str(path)] if node.module == "dataclasses" else []
    assert not wrong


@pytest.mark.e2e
def test_the_standard_librarys_is_not_loaded():
    code = "import sys, pytest_msdump.model.tensor; sys.exit('dataclasses' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
