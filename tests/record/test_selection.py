"""Choosing modules needs no PyTorch: anything with named_modules will do."""

import pytest

from pytest_msdump.capabilities.record.recording import select_modules
from pytest_msdump.capabilities.record.torch import named, refuse_unhooked, unwrapped
from pytest_msdump.core.errors import ConfigError, UnknownNameError


class Module:
    def __init__(self, **children):
        self.children = children

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, child in self.children.items():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self):
        return [module for _, module in self.named_modules()]


class Net(Module):
    pass


class Sequential(Module):
    pass


class Linear(Module):
    pass


class ScriptModule(Module):
    pass


class Scripted(ScriptModule):
    pass


class OptimizedModule(Module):
    def __init__(self, inner):
        super().__init__(_orig_mod=inner)
        self._orig_mod = inner


class DataParallel(Module):
    def __init__(self, inner, device_ids):
        super().__init__(module=inner)
        self.module, self.device_ids = inner, device_ids


def all_of(model, patterns=None, exclude=(), types=(), depth=None):
    return [*select_modules(named(model), patterns, exclude, types, depth)]


@pytest.fixture
def model():
    return Net(body=Sequential(**{"0": Linear(), "1": Linear()}), head=Linear())


def test_the_model_comes_first_by_the_name_of_its_type(model):
    assert [*named(model)] == ["Net", "body", "body.0", "body.1", "head"]
    assert [*named(Net(Net=Linear()))] == ["Net_", "Net"]


def test_a_model_that_is_a_sequential_keeps_its_own_output():
    assert all_of(Sequential(**{"0": Linear()})) == ["Sequential", "0"]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({}, ["Net", "body.0", "body.1", "head"]),
        ({"patterns": "*"}, ["Net", "body", "body.0", "body.1", "head"]),
        ({"patterns": ["head", "body.[0]"]}, ["body.0", "head"]),
        ({"exclude": "body*"}, ["Net", "head"]),
        ({"types": "Linear", "depth": 1}, ["head"]),
        ({"types": (Net, "Linear")}, ["Net", "body.0", "body.1", "head"]),
        ({"types": Module, "depth": 0}, ["Net"]),
    ],
)
def test_modules_are_chosen_by_name_type_and_depth(model, asked, names):
    assert all_of(model, **asked) == names


def test_a_pattern_without_a_module_is_an_error_with_the_nearest_name(model):
    for asked in ({"patterns": ["head", "haed"]}, {"exclude": "haed"}):
        with pytest.raises(UnknownNameError, match=r"no module is called 'haed'; did you mean 'head'"):
            all_of(model, **asked)


def test_nothing_left_is_an_error(model):
    with pytest.raises(ConfigError, match="none of the 5 modules of Net is left"):
        all_of(model, types="Conv2d")


@pytest.mark.parametrize("part", [False, True])
def test_compiled_modules_are_refused_by_name(model, part):
    given = OptimizedModule(model)
    if part:
        model.children["head"] = OptimizedModule(Linear())
        given = model
    everything = named(unwrapped(given))
    with pytest.raises(ConfigError, match=r"^head is compiled" if part else r"^Net is compiled"):
        refuse_unhooked(given, everything, everything, compiled="refuse")
    refuse_unhooked(given, everything, everything, compiled="eager")


def test_a_module_that_compiled_itself_is_refused(model):
    model.children["head"]._compiled_call_impl = print
    with pytest.raises(ConfigError, match=r"^head is compiled"):
        refuse_unhooked(model, named(model), {}, compiled="refuse")


def test_copies_on_several_devices_are_refused(model):
    refuse_unhooked(DataParallel(model, [0]), named(model), {}, compiled="refuse")
    with pytest.raises(ConfigError, match=r"^Net runs on several devices"):
        refuse_unhooked(DataParallel(model, [0, 1]), named(model), {}, compiled="refuse")


def test_modules_inside_of_scripted_ones_are_refused_and_the_scripted_one_is_not():
    model = Net(a=Scripted(b=Scripted()), ab=Linear())
    everything = named(model)
    with pytest.raises(ConfigError, match=r"^a is scripted .*such as a\.b"):
        refuse_unhooked(model, everything, everything, compiled="refuse")
    refuse_unhooked(model, everything, {name: everything[name] for name in ("Net", "a", "ab")}, compiled="refuse")
    root = Scripted(a=Scripted())
    with pytest.raises(ConfigError, match=r"^Scripted is scripted .*such as a,"):
        refuse_unhooked(root, named(root), named(root), compiled="refuse")
