"""What a recording of a PyTorch model holds, beside what PyTorch itself gives back. Needs PyTorch."""

from __future__ import annotations

import collections
import dataclasses
import warnings
from contextlib import nullcontext, suppress

import numpy as np
import pytest
from live.recordings import arrays_of, keys_of, manifest_of, outputs_of

from pytest_msdump import open_dump
from pytest_msdump.core.errors import ConfigError

torch = pytest.importorskip("torch")
nn = torch.nn
functional = nn.functional

pytestmark = pytest.mark.live


class Net(nn.Module):
    """In-place layers, a layer that is called twice, a keyword, a residual connection, a functional call."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4))
        self.drop = nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x, *, scale):
        hidden = self.body(x) + x * scale
        hidden = self.norm(self.body(hidden) + hidden)
        return {"out": functional.relu(self.head(self.drop(hidden))), "rest": (hidden, None)}


@pytest.fixture
def x():
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(1))


def net():
    torch.manual_seed(0)
    return Net()


def hooks_left(model):
    from torch.nn.modules import module as hooks

    left = [len(kept) for name, kept in vars(hooks).items() if name.startswith("_global_") and "_hooks" in name]
    for module in model.modules():
        left += [len(module._forward_pre_hooks_with_kwargs), len(module._forward_hooks), len(module._backward_hooks)]
    left += [len(parameter._post_accumulate_grad_hooks or ()) for parameter in model.parameters()]
    return sum(left)


# -- what is recorded -------------------------------------------------------------------------------------------------


def test_modules_are_recorded_as_they_returned_in_the_order_of_execution(recorder, x):
    model = net().eval()
    with recorder.torch(model) as recording:
        result = model(x, scale=2.0)
    names = [name for name, _, _ in keys_of(recording)]
    body = ["body.0", "body.1", "body.2"]
    assert names == [*body, *body, "norm", "drop", "head", "Net", "Net"]
    found = outputs_of(recording)
    first = model.body[0](x).detach()
    # body.1 works in place on what body.0 gave back: the record is older.
    np.testing.assert_array_equal(found["body.0"][0], first.numpy())
    np.testing.assert_array_equal(found["body.1"][0], first.relu().numpy())
    assert (found["body.0"][0] < 0).any()
    np.testing.assert_array_equal(found["Net"][0], result["out"].detach().numpy())


def test_a_module_that_is_called_several_times_has_occurrences(recorder, x):
    model = net().eval()
    with recorder.torch(model, modules="body.2") as recording:
        model(x, scale=2.0)
    refs = [ref.key.op.at.occurrence for ref in open_dump(recording.directory).refs]
    assert refs == [0, 1]


def test_what_happens_to_a_tensor_after_its_module_returned_does_not_change_the_record(recorder, x):
    layer = nn.Linear(4, 4)
    with recorder.torch(layer) as recording, torch.no_grad():
        result = layer(x)
        before = result.clone()
        result.zero_()
    (found,) = outputs_of(recording)["Linear"]
    np.testing.assert_array_equal(found, before.numpy())
    assert found.any()


def test_nested_outputs_are_numbered_in_their_order(recorder):
    Pair = collections.namedtuple("Pair", "second first")

    @dataclasses.dataclass
    class Result:
        late: object
        early: object

    class Nested(nn.Module):
        def forward(self, x):
            return {"b": [x + 1, None], "a": Result(Pair(x + 2, (x + 3, 7)), x + 4), "c": "text", "d": x + 5}

    model = Nested()
    with recorder.torch(model) as recording:
        model(torch.zeros(1))
    values = {slot: array.item() for (_, _, slot), (array,) in arrays_of(recording).items()}
    assert values == {0: 1, 1: 2, 2: 3, 3: 4, 4: 5}


def test_a_recurrent_layer_has_its_states_as_outputs(recorder):
    layer = nn.LSTM(4, 3)
    with recorder.torch(layer) as recording:
        out, (hidden, cell) = layer(torch.randn(5, 2, 4))
    for (array,), tensor in zip(arrays_of(recording).values(), (out, hidden, cell), strict=True):
        np.testing.assert_array_equal(array, tensor.detach().numpy())


def test_inputs_are_recorded_as_they_were_before_the_module_changed_them(recorder, x):
    class Doubles(nn.Module):
        def forward(self, x, *, by):
            return x.mul_(by).add_(by.mul_(0))

    model = Doubles()
    given, factor = x.clone(), torch.full((1,), 2.0)
    with recorder.torch(model, inputs=True) as recording:
        model(given, by=factor)
    assert keys_of(recording) == [("Doubles", "input", 0), ("Doubles", "input", 1), ("Doubles", "output", 0)]
    first, second, _ = arrays_of(recording).values()
    np.testing.assert_array_equal(first[0], x.numpy())
    np.testing.assert_array_equal(second[0], [2.0])


def test_lines_of_the_program_are_told(recorder, x):
    model = net().eval()
    with recorder.torch(model) as recording:
        model(x, scale=2.0)
    lines = {entry["op"]: entry["line"] for entry in manifest_of(recording)["tensors"].values()}
    start = Net.forward.__code__.co_firstlineno
    assert lines["head"] == f"{__file__}:{start + 3}"
    assert lines["norm"] == f"{__file__}:{start + 2}"


# -- which modules ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({"modules": "*", "depth": 1}, {"Net", "body", "drop", "norm", "head"}),
        ({"exclude": ["body.*", "Net"]}, {"drop", "norm", "head"}),
        ({"types": ["Linear", nn.Dropout]}, {"body.0", "body.2", "head", "drop"}),
    ],
)
def test_modules_are_chosen_by_name_type_and_depth(recorder, x, choice, names):
    model = net().eval()
    with recorder.torch(model, **choice) as recording:
        model(x, scale=2.0)
    assert set(outputs_of(recording)) == names


def test_options_that_do_not_exist_are_refused(recorder):
    with pytest.raises(TypeError, match="'gradient'"):
        recorder.torch(net(), gradient=True)
    with pytest.raises(ConfigError, match="'ops' is none of 'module', 'operation', 'both'"):
        recorder.torch(net(), level="ops")


# -- recording changes nothing ----------------------------------------------------------------------------------------


def trained(model, x, recording=None):
    """Two steps; every output, gradient, parameter, buffer and random number."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    seen = []
    torch.manual_seed(3)
    for _ in range(2):
        optimizer.zero_grad()
        given = x.clone().requires_grad_()
        result = model(given, scale=2.0)
        (result["out"].square().sum() + result["rest"][0].sum()).backward()
        optimizer.step()
        seen += [result["out"], result["rest"][0], given.grad, torch.rand(2)]
        seen += [parameter.grad.clone() for parameter in model.parameters()]
        seen += [tensor.clone() for tensor in model.state_dict().values()]
        if recording is not None:
            recording.step()
    return [tensor.detach().numpy().tobytes() for tensor in seen]


@pytest.mark.parametrize("level", ["module", "operation", "both"])
def test_outputs_gradients_and_weights_are_bit_identical_with_and_without_a_recording(recorder, x, level):
    plain = trained(net(), x)
    model = net()
    with recorder.torch(
        model, level=level, inputs=True, gradients=True, parameters=True, iterations=True, modules="*"
    ) as recording:
        recorded = trained(model, x, recording)
    assert recorded == plain
    assert hooks_left(model) == 0
    assert trained(net(), x) == plain


@pytest.mark.parametrize("level", ["module", "operation", "both"])
@pytest.mark.parametrize("training", [False, True])
def test_a_transformer_computes_the_same_bits_whether_it_is_recorded_or_not(recorder, training, level):
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True).train(training)
    given = torch.randn(2, 5, 16)
    with nullcontext() if training else torch.no_grad():
        plain = model(given)
        with recorder.torch(model, inputs=True, level=level) as recording:
            recorded = model(given)
    assert recorded.detach().numpy().tobytes() == plain.detach().numpy().tobytes()
    # Without gradients PyTorch takes a road that calls none of the inner layers; so does the recording.
    inner = "linear1/linear" if level == "operation" else "linear1"
    assert (inner in outputs_of(recording)) is training


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_models_are_recorded_without_gradients(recorder, x, mode):
    model = net().eval()
    with recorder.torch(model) as recording, getattr(torch, mode)():
        result = model(x, scale=2.0)
    np.testing.assert_array_equal(outputs_of(recording)["Net"][0], result["out"].numpy())


def test_autocast_models_are_recorded_in_the_types_they_ran_in(recorder, x):
    model = net().eval()
    with torch.autocast("cpu", torch.bfloat16):
        plain = model(x, scale=2.0)["out"]
        with recorder.torch(model) as recording:
            model(x, scale=2.0)
    manifest = manifest_of(recording)
    assert manifest["dtype_policy"] == "autocast bfloat16"
    (entry,) = [(f, e) for f, e in manifest["tensors"].items() if e["op"] == "Net" and not e.get("slot")]
    assert entry[1]["dtype"] == "bfloat16"
    assert np.load(recording.directory / entry[0]).tobytes() == plain.detach().view(torch.int16).numpy().tobytes()


# -- whatever happens -------------------------------------------------------------------------------------------------


def test_hooks_are_removed_when_the_model_raises_and_the_dump_is_not_called_complete(recorder, x):
    model = net()
    recording = recorder.torch(model, gradients=True, level="both", optimizer=torch.optim.SGD(model.parameters()))
    with suppress(TypeError), recording:
        model(x, scale="wrong")
    assert hooks_left(model) == 0
    assert manifest_of(recording)["complete"] is False
    model(x, scale=2.0)["out"].sum().backward()
    assert not [name for name, _, _ in keys_of(recording) if "grad" in name]


def test_hooks_are_removed_when_a_tensor_cannot_be_recorded(recorder):
    class Meta(nn.Module):
        def forward(self, x):
            return x.to("meta")

    model = Meta()
    recording = recorder.torch(model)
    with pytest.raises(ConfigError, match="on meta cannot be recorded"), recording:
        model(torch.zeros(2))
    assert hooks_left(model) == 0
    assert manifest_of(recording)["complete"] is False


def test_a_backward_pass_after_the_recording_writes_nothing(recorder, x):
    model = net()
    with pytest.raises(ConfigError, match=r"call \.backward\(\) inside"), recorder.torch(model, gradients=True):
        result = model(x, scale=2.0)
    files = sorted(path.name for path in recorder.base.rglob("*"))
    result["out"].sum().backward()
    assert sorted(path.name for path in recorder.base.rglob("*")) == files
    assert hooks_left(model) == 0


def test_a_recording_in_which_nothing_ran_is_an_error(recorder, x):
    model = net()
    with pytest.raises(ConfigError, match="none of the chosen modules was called"), recorder.torch(model) as recording:
        net()(x, scale=2.0)
    assert manifest_of(recording)["complete"] is False


def test_modules_that_raise_inside_of_the_model_do_not_shift_names(recorder, x):
    class Tries(nn.Module):
        def __init__(self):
            super().__init__()
            self.wrong, self.right = nn.Linear(3, 3), nn.Linear(4, 4)

        def forward(self, x):
            with suppress(RuntimeError):
                self.wrong(x)
            return self.right(x).relu()

    model = Tries()
    with recorder.torch(model, level="both") as recording:
        model(x)
        model(x)
    # The module that raised is over: what follows is not below it.
    assert [name for name, _, _ in keys_of(recording)] == ["right/linear", "right", "Tries/relu", "Tries"] * 2


def test_a_call_that_raised_leaves_nothing_to_the_next_one(recorder, x):
    model = net()
    with recorder.torch(model, level="both", gradients=True) as recording:
        with suppress(TypeError):
            model(x, scale="wrong")
        model(x, scale=2.0)["out"].sum().backward()
    assert "outside/sum/grad_output" in outputs_of(recording)


# -- iterations and state ---------------------------------------------------------------------------------------------


def test_several_iterations_are_numbered_folders(recorder, x):
    model = net().eval()
    with recorder.torch(model, modules="head", iterations=True) as recording:
        for factor in (1.0, 2.0):
            with recording.iteration() as number:
                model(x, scale=factor)
            model(x, scale=9.0)
    assert number == 1
    assert [path.name for path in sorted(recording.directory.iterdir())] == ["0", "1", "msdump.json"]
    assert [len(list((recording.directory / folder).iterdir())) for folder in "01"] == [1, 1]
    iterations = [ref.key.op.at.iteration for ref in open_dump(recording.directory).refs]
    assert iterations == [0, 1]
    assert set(manifest_of(recording)["inputs"]) == {"x", "x[1]"}


def test_a_backward_pass_between_two_iterations_is_not_recorded(recorder, x):
    model = net()
    with recorder.torch(model, gradients=True, iterations=True) as recording:
        with recording.iteration():
            result = model(x, scale=2.0)["out"].sum()
            result.backward(retain_graph=True)
        count = len(list(recording.directory.rglob("*.npy")))
        result.backward()
        assert len(list(recording.directory.rglob("*.npy"))) == count


def test_a_second_iteration_needs_to_be_announced(recorder, x):
    model = net()
    with recorder.torch(model) as recording:
        with recording.iteration():
            model(x, scale=2.0)
        with pytest.raises(ConfigError, match="iterations=True"), recording.iteration():
            pass


def test_parameters_buffers_and_the_state_of_the_optimizer_are_recorded(recorder, x):
    model = net()
    before = {name: tensor.clone().numpy() for name, tensor in model.state_dict().items()}
    optimizer = torch.optim.Adam(model.parameters())
    with recorder.torch(model, parameters=True, optimizer=optimizer) as recording:
        model(x, scale=2.0)["out"].sum().backward()
        optimizer.step()
    found = outputs_of(recording)
    for name, array in before.items():
        np.testing.assert_array_equal(found[name][0], array)
    for name, parameter in model.named_parameters():
        np.testing.assert_array_equal(found[f"{name}/updated"][0], parameter.detach().numpy())
        np.testing.assert_array_equal(found[f"{name}/exp_avg"][0], optimizer.state[parameter]["exp_avg"].numpy())
    kinds = {entry["op"]: entry["op_type"] for entry in manifest_of(recording)["tensors"].values()}
    assert (kinds["head.weight"], kinds["norm.running_mean"], kinds["head"]) == ("Parameter", "Parameter", "Linear")


def test_the_manifest_tells_framework_device_seed_inputs_and_weights(recorder, x):
    model = net()
    torch.manual_seed(1234)
    with recorder.torch(model) as recording:
        model(x, scale=torch.tensor(2.0))
    manifest = manifest_of(recording)
    assert manifest["framework"] == "torch"
    assert torch.__version__.startswith(manifest["version"])
    assert (manifest["device"], manifest["seeds"], manifest["complete"]) == ("cpu", {"torch": 1234}, True)
    assert set(manifest["inputs"]) == {"x", "scale"}
    assert set(manifest["weights"]) == set(model.state_dict())
    from pytest_msdump.capabilities.record.manifest import digest

    assert manifest["inputs"]["x"] == digest(x.numpy())


def test_digests_can_be_left_out(recorder, x):
    model = net()
    with recorder.torch(model, digests=False) as recording:
        model(x, scale=2.0)
    assert manifest_of(recording)["inputs"] == manifest_of(recording)["weights"] == {}


def test_layers_that_have_no_shape_yet_are_refused_where_their_parameters_are_needed(recorder, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.LazyLinear(3)
    with (
        pytest.raises(ConfigError, match="weight has no shape before the model is first called"),
        recorder.torch(model),
    ):
        model(x)


# -- wrappers ---------------------------------------------------------------------------------------------------------


def compiled(model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.compile(model, backend="eager", **options)


can_run_uncompiled = hasattr(torch.compiler, "set_stance")
runs_uncompiled = pytest.mark.skipif(not can_run_uncompiled, reason="needs PyTorch 2.6")


def test_a_pytorch_that_cannot_run_compiled_models_uncompiled_is_told_so(recorder, monkeypatch):
    # What PyTorch before 2.6 has not.
    monkeypatch.delattr(torch.compiler, "set_stance", raising=False)
    with pytest.raises(ConfigError, match=r"compiled='eager' needs PyTorch 2\.6 or newer, and this is 2\."):
        recorder.torch(net(), compiled="eager")


# PyTorch's compiler looks at .grad of what is no leaf.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad attribute")
@runs_uncompiled
@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("way", ["torch.compile", "in place", "a part"])
def test_compiled_models_are_refused_or_run_uncompiled_under_their_own_names(recorder, x, fullgraph, way):
    model = net().eval()
    if way == "in place":
        model.compile(backend="eager", fullgraph=fullgraph)
    if way == "a part":
        model.head = compiled(model.head, fullgraph=fullgraph)
    called = compiled(model, fullgraph=fullgraph) if way == "torch.compile" else model
    plain = called(x, scale=2.0)["out"]
    with pytest.raises(ConfigError, match="is compiled, and compiled code calls no hooks"):
        recorder.torch(called)
    with recorder.torch(called, compiled="eager") as recording:
        called(x, scale=2.0)
    assert list(outputs_of(recording)) == ["body.0", "body.1", "body.2", "norm", "drop", "head", "Net"]
    assert {entry["op_type"] for entry in manifest_of(recording)["tensors"].values() if entry["op"] == "head"} == {
        "Linear"
    }
    assert called(x, scale=2.0)["out"].detach().numpy().tobytes() == plain.detach().numpy().tobytes()


@runs_uncompiled
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_function_is_noticed_when_nothing_was_recorded_and_keeps_no_hook(recorder, x):
    model = net().eval()
    called = compiled(lambda x: model(x, scale=2.0)["out"], fullgraph=True)
    with pytest.raises(ConfigError, match="compiled functions that call it"), recorder.torch(model):
        called(x)
    called(x)
    with recorder.torch(model, compiled="eager") as recording:
        called(x)
    assert "head" in outputs_of(recording)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_scripted_modules_are_refused_unless_only_their_own_outputs_are_wanted(recorder, x):
    model = nn.Sequential(nn.Linear(4, 4), torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU())))
    with pytest.raises(ConfigError, match=r"1 is scripted \(torch.jit\), and modules inside of it, such as 1.0"):
        recorder.torch(model)
    with recorder.torch(model, exclude="1.*", modules="*") as recording:
        model(x)
    assert list(outputs_of(recording)) == ["0", "1", "Sequential"]
    with pytest.raises(ConfigError, match="is scripted"):
        recorder.torch(torch.jit.script(nn.Sequential(nn.Linear(4, 4))), modules="*")


def test_data_parallel_models_are_recorded_on_one_device_only(recorder, x):
    model = net().eval()
    wrapped = nn.DataParallel(model)
    with recorder.torch(wrapped) as recording:
        wrapped(x, scale=2.0)
    assert "head" in outputs_of(recording)
    wrapped.device_ids = [0, 1]
    with pytest.raises(ConfigError, match="runs on several devices at once"):
        recorder.torch(wrapped)
