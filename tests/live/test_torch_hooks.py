"""A recording holds what modules are given and what the next module gets, whatever hooks do to it. Needs PyTorch."""

from contextlib import suppress

import numpy as np
import pytest
from live.recordings import arrays_of, manifest_of

from pytest_msdump.core.dumps.manifest import read_manifest
from pytest_msdump.core.errors import ConfigError

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = pytest.mark.live


class Net(nn.Module):
    """Two layers that do nothing to an input that is positive."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.ReLU(), nn.ReLU()

    def forward(self, x, *, by=1.0):
        return self.second(self.first(x * by))


@pytest.fixture
def x():
    return torch.tensor([1.0, 2.0])


def values(recording):
    """Each tensor by its name and ``input`` or ``output``; a list where there are several calls."""
    found = {f"{name}:{io}": [one.tolist() for one in calls] for (name, io, _), calls in arrays_of(recording).items()}
    return {key: calls[0] if len(calls) == 1 else calls for key, calls in found.items()}


def adds(_module, _args, result):
    return result + 100


def adds_in_place(_module, _args, result):
    result.add_(100)


def adds_with_keywords(_module, _args, _kwargs, result):
    return result + 100


def adds_before(_module, args):
    return args[0] + 100


def adds_before_in_place(_module, args):
    args[0].add_(100)


def adds_before_with_keywords(_module, args, kwargs):
    return (args[0] + 100,), kwargs


def global_hook(hook):
    def register(module):
        def of_one(one, *given):
            return hook(one, *given) if one is module else None

        return nn.modules.module.register_module_forward_hook(of_one)

    return register


AFTER = {
    "replaced": lambda module: module.register_forward_hook(adds),
    "in place": lambda module: module.register_forward_hook(adds_in_place),
    "with keywords": lambda module: module.register_forward_hook(adds_with_keywords, with_kwargs=True),
    "always called": lambda module: module.register_forward_hook(adds, always_call=True),
    "in front": lambda module: module.register_forward_hook(adds, prepend=True),
    "of all modules": global_hook(adds),
}
BEFORE = {
    "replaced": lambda module: module.register_forward_pre_hook(adds_before),
    "in place": lambda module: module.register_forward_pre_hook(adds_before_in_place),
    "with keywords": lambda module: module.register_forward_pre_hook(adds_before_with_keywords, with_kwargs=True),
}


@pytest.mark.parametrize("level", ["module", "both"])
@pytest.mark.parametrize("way", AFTER)
@pytest.mark.parametrize("when", ["before", "within"])
def test_an_output_is_recorded_as_the_next_module_gets_it(recorder, x, way, when, level):
    model = Net()
    handle = AFTER[way](model.first) if when == "before" else None
    with recorder.torch(model, inputs=True, level=level) as recording, torch.no_grad():
        handle = handle or AFTER[way](model.first)
        result = model(x)
    handle.remove()
    assert result.tolist() == [101, 102]
    found = values(recording)
    assert found["first:output"] == found["second:input"] == found["second:output"] == [101, 102]
    assert found["first:input"] == [1, 2]
    if level == "both":
        # What the function gave back, before the hook.
        assert found["first/relu:output"] == [1, 2]
    note = "a forward hook changed the output of first; recorded is what the next module got"
    assert manifest_of(recording)["notes"] == [note]
    assert read_manifest(recording.directory)[1] == (note,)


@pytest.mark.parametrize("way", BEFORE)
def test_an_input_is_recorded_as_the_module_gets_it(recorder, x, way):
    model = Net()
    handle = BEFORE[way](model.second)
    with recorder.torch(model, inputs=True) as recording, torch.no_grad():
        result = model(x)
    handle.remove()
    assert result.tolist() == [101, 102]
    found = values(recording)
    assert found["second:input"] == [101, 102]
    assert found["first:output"] == [1, 2]
    note = "a forward pre-hook changed the input of second; recorded is what the module got"
    assert manifest_of(recording)["notes"] == [note]

    model = Net()
    seen = []
    model.first.register_forward_hook(lambda *given: seen.append(given))
    model.first.register_forward_pre_hook(lambda *given: seen.append(given))
    model.second.register_forward_hook(lambda _module, _args, result: result)
    with recorder.torch(model, inputs=True) as recording:
        model(x)
    assert len(seen) == 2
    assert manifest_of(recording)["notes"] == []
    assert values(recording)["second:output"] == [1, 2]


def test_the_edges_of_the_graph_go_through_what_a_hook_made(recorder, x):
    model = Net()
    model.first.register_forward_hook(adds)
    with recorder.torch(model) as recording, torch.no_grad():
        model(x)
    graph = {call["name"]: call["inputs"] for call in manifest_of(recording)["graph"]}
    assert graph == {"first": [None], "second": [["first", 0]], "Net": [None, ["second", 0]]}


def test_several_hooks_in_any_order_are_all_seen(recorder, x):
    model = Net()
    model.first.register_forward_hook(adds)
    with recorder.torch(model) as recording, torch.no_grad():
        model(x)
        model.first.register_forward_hook(lambda _module, _args, result: result * 2)
        model(x)
        removed = model.first.register_forward_hook(lambda _module, _args, result: result * 0)
        removed.remove()
        model(x)
    assert values(recording)["first:output"] == [[101, 102], [202, 204], [202, 204]]


def test_nested_recordings_are_no_hooks_of_others(recorder, x):
    model = Net()
    model.first.register_forward_hook(adds)
    model.second.register_forward_pre_hook(adds_before)
    with recorder.torch(model, inputs=True) as outer, torch.no_grad():
        with recorder.torch(model, inputs=True) as inner:
            model(x)
        model(x)
    assert values(inner)["second:input"] == values(inner)["second:output"] == [201, 202]
    assert values(outer)["second:input"] == [[201, 202]] * 2
    assert manifest_of(outer)["notes"] == manifest_of(inner)["notes"]
    assert len(manifest_of(inner)["notes"]) == 2

    model = Net()
    model.first.register_forward_hook(lambda *_: None, always_call=True)
    model.second.register_forward_pre_hook(adds_before)
    before = [(dict(one._forward_hooks), dict(one._forward_pre_hooks)) for one in model.modules()]
    of_all = [dict(kept) for name, kept in vars(nn.modules.module).items() if name.startswith("_global_forward")]
    with recorder.torch(model, inputs=True), torch.no_grad():
        model(x)
        with pytest.raises(TypeError):
            model(x, by="wrong")
        with pytest.raises(TypeError):
            model.first(3)
    assert [(dict(one._forward_hooks), dict(one._forward_pre_hooks)) for one in model.modules()] == before
    assert [
        dict(kept) for name, kept in vars(nn.modules.module).items() if name.startswith("_global_forward")
    ] == of_all
    assert not any(one._forward_pre_hooks_with_kwargs for one in model.modules())


def test_a_module_that_raises_under_hooks_that_are_always_called_is_over(recorder, x):
    class Fails(nn.Module):
        def forward(self, _):
            raise ValueError

    class Tries(nn.Module):
        def __init__(self):
            super().__init__()
            self.fails, self.works = Fails(), nn.ReLU()

        def forward(self, x):
            with suppress(ValueError):
                self.fails(x)
            return self.works(x) + 1

    model = Tries()
    called = []
    model.fails.register_forward_hook(lambda *given: called.append(given), always_call=True)
    with recorder.torch(model, level="both") as recording:
        model(x)
    assert len(called) == 1
    assert list(values(recording)) == [
        "works/relu:output",
        "works:output",
        "Tries/add:output",
        "Tries:output",
    ]

    class Keeps(nn.Module):
        def forward(self, x):
            self.kept = x * 2

    class Uses(nn.Module):
        def __init__(self):
            super().__init__()
            self.keeps = Keeps()

        def forward(self, x):
            try:
                raise ValueError
            except ValueError:
                self.keeps(x)
            return self.keeps.kept + 1

    with recorder.torch(Uses(), level="both") as recording:
        Uses.__call__(recording.model, x)
    assert list(values(recording)) == ["keeps/mul:output", "Uses/add:output", "Uses:output"]


def of_all_modules(module):
    return nn.modules.module.register_module_forward_pre_hook(
        lambda one, args: args[0] + 100 if one is module else None
    )


@pytest.mark.parametrize("register", [BEFORE["replaced"], of_all_modules])
def test_a_pre_hook_that_comes_too_late_is_refused_where_inputs_are_recorded(recorder, x, register):
    def late():
        nonlocal handle
        with recorder.torch(model, inputs=True):
            handle = register(model.second)
            model(x)

    model = Net()
    handle = None
    with pytest.raises(ConfigError, match=r"pre-hook was added to (ReLU|Net) while its inputs were recorded"):
        late()
    handle.remove()
    with recorder.torch(model) as recording:
        handle = register(model.second)
        model(x)
        handle.remove()
    assert values(recording)["second:output"] == [101, 102]


def test_a_fast_path_is_left_for_hooks_of_the_user_alone(recorder):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    given = torch.randn(2, 5, 8)
    handle = None
    found = []
    for _ in range(2):
        with recorder.torch(layer) as recording, torch.no_grad():
            layer(given)
        found.append("linear1:output" in values(recording))
        handle = handle or layer.linear1.register_forward_hook(lambda *_: None)
    assert found == [False, True]


def test_gradients_that_backward_hooks_change_are_recorded_as_they_go_on(recorder, x):
    class Scales(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)

        def forward(self, x):
            return self.second(self.first(x))

    torch.manual_seed(0)
    model = Scales()
    model.second.register_full_backward_hook(lambda _module, to_input, _of_output: (to_input[0] * 100,))
    model.first.register_full_backward_pre_hook(lambda _module, of_output: (of_output[0] * 10,))
    with recorder.torch(model, gradients=True) as recording:
        model(x.clone().requires_grad_()).sum().backward()
    found = values(recording)
    plain = model.second.weight.detach().sum(0)
    np.testing.assert_allclose(found["second/grad_input:output"], plain * 100, rtol=1e-6)
    # What the layer itself works with: changed by both.
    np.testing.assert_allclose(found["first/grad_output:output"], plain * 1000, rtol=1e-6)
    np.testing.assert_allclose(found["first.weight/grad:output"], torch.outer(plain * 1000, x), rtol=1e-6)
