"""Which functions of PyTorch a recording holds, under which names and lines. Needs PyTorch."""

import inspect

import numpy as np
import pytest
from live.recordings import arrays_of, keys_of, manifest_of

from pytest_msdump import open_dump

torch = pytest.importorskip("torch")
nn = torch.nn
functional = nn.functional

pytestmark = pytest.mark.live


class Calls(nn.Module):
    """Calls a function, and has a layer of its own."""

    def __init__(self, function):
        super().__init__()
        self.layer, self.function = nn.Linear(4, 4), function

    def forward(self, x):
        return self.function(self.layer(x))


@pytest.fixture
def x():
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(1))


def names(recording):
    return [name for name, io, _ in keys_of(recording) if io == "output"]


def values(recording, name, io="output"):
    found = arrays_of(recording).items()
    return [array for (one, direction, _), arrays in found if (one, direction) == (name, io) for array in arrays]


def recorded(recorder, model, *given, level="operation", **options):
    with recorder.torch(model, level=level, **options) as recording, torch.no_grad():
        model(*given)
    return recording


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("module", ["layer", "Calls"]),
        ("operation", ["layer/linear", "Calls/relu", "Calls/mul", "outside/sum"]),
        ("both", ["layer/linear", "layer", "Calls/relu", "Calls/mul", "Calls", "outside/sum"]),
    ],
)
def test_a_level_records_modules_functions_or_both(recorder, x, level, expected):
    model = Calls(lambda hidden: functional.relu(hidden) * 2)
    with recorder.torch(model, level=level) as recording:
        result = model(x).sum()
    assert names(recording) == expected
    if level != "module":
        hidden = model.layer(x).detach()
        np.testing.assert_array_equal(values(recording, "layer/linear")[0], hidden.numpy())
        np.testing.assert_array_equal(values(recording, "Calls/relu")[0], hidden.clamp(min=0).numpy())
        np.testing.assert_array_equal(values(recording, "Calls/mul")[0], (hidden.clamp(min=0) * 2).numpy())
        np.testing.assert_array_equal(values(recording, "outside/sum")[0], result.detach().numpy())
    assert {ref.key.op.label for ref in open_dump(recording.directory).refs} == set(expected)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: x + 1, "add"),
        (lambda x: 1 - x, "rsub"),
        (lambda x: x @ x.T, "matmul"),
        (lambda x: x[:, [1, 0]], "getitem"),
        (lambda x: x > 0, "gt"),
        (lambda x: x == 0, "eq"),
        (torch.relu, "relu"),
        (lambda x: x.relu(), "relu"),
        (lambda x: functional.relu(x, inplace=True), "relu"),
        (lambda x: functional.softmax(x, -1), "softmax"),
        (lambda x: functional.scaled_dot_product_attention(x, x, x), "scaled_dot_product_attention"),
        (lambda x: torch.ops.aten.relu(x), "relu"),
        (lambda x: torch.ops.aten.relu.default(x), "relu"),
        (lambda x: torch.cat([x, x]), "cat"),
        (lambda x: torch.einsum("ij,kj->ik", x, x), "einsum"),
        (lambda x: torch.max(x, 1), "max"),
    ],
)
def test_a_function_is_recorded_by_its_plain_name(recorder, x, function, name):
    recording = recorded(recorder, Calls(function), x)
    found = [one for one in names(recording) if one.startswith("Calls/")]
    assert found == [f"Calls/{name}"] * (2 if name == "max" else 1)


def test_a_function_that_calls_others_is_recorded_alone(recorder):
    layer = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 5, 8, requires_grad=True)
    with recorder.torch(layer, level="operation") as recording:
        out, weights = layer(x, x, x)
    assert names(recording) == ["MultiheadAttention/multi_head_attention_forward"] * 2
    first, second = values(recording, "MultiheadAttention/multi_head_attention_forward")
    # The layer swaps the axes of what the function gave back.
    np.testing.assert_array_equal(first.swapaxes(0, 1), out.detach().numpy())
    np.testing.assert_array_equal(second, weights.detach().numpy())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.view(3, -1).T.unsqueeze(0)[0],
        lambda x: (x.shape, x.size(), x.dim(), x.dtype, x.requires_grad, len(x)) and x,
        lambda x: x.contiguous().to(x.dtype).float(),
        lambda x: functional.dropout(x, 0.5, training=False),
        lambda x: x.split(2)[0],
        lambda x: [row for row in x][0],  # noqa: C416, RUF015
        lambda x: (x.item() if x.numel() == 1 else repr(x)) and x,
        lambda x: torch.empty(3) is None or x,
    ],
)
@pytest.mark.parametrize("inputs", [False, True])
def test_what_computes_nothing_is_not_recorded(recorder, x, function, inputs):
    recording = recorded(recorder, Calls(function), x, inputs=inputs)
    assert set(names(recording)) == {"layer/linear"}
    assert {name for name, _, _ in keys_of(recording)} == {"layer/linear"}


def test_inputs_are_as_they_were_and_outputs_as_they_became(recorder, x):
    def changes(hidden):
        hidden[0] = 7
        hidden += 1
        return torch.mul(hidden, 2, out=torch.empty(3, 4))

    model = Calls(changes)
    recording = recorded(recorder, model, x, inputs=True)
    assert names(recording) == ["layer/linear", "Calls/setitem", "Calls/add_", "Calls/mul"]
    plain = model.layer(x).detach().numpy()
    filled = plain.copy()
    filled[0] = 7
    np.testing.assert_array_equal(values(recording, "Calls/setitem", "input")[0], plain)
    np.testing.assert_array_equal(values(recording, "Calls/setitem")[0], filled)
    np.testing.assert_array_equal(values(recording, "Calls/add_", "input")[0], filled)
    np.testing.assert_array_equal(values(recording, "Calls/add_")[0], filled + 1)
    np.testing.assert_array_equal(values(recording, "Calls/mul")[0], (filled + 1) * 2)


def test_every_operation_and_module_has_the_line_that_called_it(recorder, x):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            x = self.layer(x)
            x = torch.tanh(x)
            return x + 1

    model = Two()
    with recorder.torch(model, level="both") as recording:
        functional.mse_loss(model(x), x)
    start = Two.forward.__code__.co_firstlineno
    own = inspect.currentframe().f_lineno - 2
    tensors = manifest_of(recording)["tensors"].values()
    lines = {entry["op"]: int(entry["line"].removeprefix(f"{__file__}:")) for entry in tensors}
    assert lines == {
        "layer/linear": start + 1,
        "layer": start + 1,
        "Two/tanh": start + 2,
        "Two/add": start + 3,
        "Two": own,
        "outside/mse_loss": own,
    }


def test_several_calls_are_occurrences(recorder, x):
    recording = recorded(recorder, Calls(lambda x: torch.relu(torch.relu(x - 1) - 1)), x)
    found = {(ref.key.op.label, ref.key.op.at.occurrence) for ref in open_dump(recording.directory).refs}
    assert found == {("layer/linear", 0), *((f"Calls/{name}", at) for name in ("sub", "relu") for at in (0, 1))}


def test_modules_that_are_left_out_have_no_operations(recorder, x):
    model = nn.Sequential(Calls(torch.tanh), Calls(torch.relu))
    recording = recorded(recorder, model, x, exclude="0*")
    assert names(recording) == ["1.layer/linear", "1/relu"]
    with recorder.torch(model, level="operation", modules="1") as recording:
        model(x).sum()
    # What runs outside of the model goes with the model itself.
    assert names(recording) == ["1/relu"]


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_a_loss_is_recorded_and_the_optimizer_is_not(recorder, x, kind):
    model = Calls(torch.tanh)
    optimizer = kind(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    with recorder.torch(model, level="operation", iterations=True) as recording:
        for _ in range(2):
            with recording.iteration():
                optimizer.zero_grad()
                criterion(model(x * 2), torch.tensor([0, 1, 2])).backward()
                optimizer.step()
    each = ["outside/mul", "layer/linear", "Calls/tanh", "outside/cross_entropy"]
    assert names(recording) == each * 2
    # Something before the model is called does not take away what the manifest says of its inputs.
    assert set(manifest_of(recording)["inputs"]) == {"x", "x[1]"}


def test_operations_under_autocast_have_the_types_they_returned(recorder, x):
    model = Calls(lambda x: x.float() + 1)
    with torch.autocast("cpu", torch.bfloat16), recorder.torch(model, level="operation") as recording:
        model(x)
        expected = model.layer(x).detach()
    types = {entry["op"]: entry.get("dtype") for entry in manifest_of(recording)["tensors"].values()}
    assert types == {"layer/linear": "bfloat16", "Calls/float": None, "Calls/add": None}
    (bits, *_) = values(recording, "layer/linear")
    assert bits.tobytes() == expected.view(torch.int16).numpy().tobytes()


def test_operations_of_inference_mode_are_recorded(recorder, x):
    model = Calls(lambda x: x.relu_().view(-1) * 2)
    with recorder.torch(model, level="operation") as recording, torch.inference_mode():
        result = model(x)
    assert names(recording) == ["layer/linear", "Calls/relu_", "Calls/mul"]
    np.testing.assert_array_equal(values(recording, "Calls/mul")[0], result.numpy())


def test_what_is_mapped_is_left_out_and_goes_on(recorder, x):
    model = Calls(lambda x: torch.vmap(lambda row: row.sin() * torch.rand(()), randomness="different")(x) + 1)
    recording = recorded(recorder, model, x)
    assert "Calls/sin" not in names(recording)
    assert names(recording)[-1] == "Calls/add"


def test_a_function_that_raises_leaves_no_trace(recorder, x):
    def tries(x):
        try:
            torch.cat([x, torch.zeros(2, 2, 2)])
        except RuntimeError:
            return x + 1

    recording = recorded(recorder, Calls(tries), x)
    assert [name for name in names(recording) if name != "Calls/zeros"] == ["layer/linear", "Calls/add"]


class Doubles(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x * 2

    @staticmethod
    def backward(_, gradient):
        return torch.mul(gradient, 2)


@pytest.mark.parametrize("way", ["method", "function", "gradient"])
def test_a_backward_pass_has_no_operations(recorder, x, way):
    model = Calls(Doubles.apply)
    with recorder.torch(model, level="operation", inputs=True) as recording:
        loss = model(x).sum()
        if way == "method":
            loss.backward()
        elif way == "function":
            torch.autograd.backward(loss)
        else:
            torch.autograd.grad(loss, model.layer.weight)
    assert names(recording) == ["layer/linear", "Calls/mul", "outside/sum"]
    assert {name for name, _, _ in keys_of(recording)} == {*names(recording)}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad attribute")
@pytest.mark.skipif(not hasattr(torch.compiler, "set_stance"), reason="needs PyTorch 2.6")
def test_a_model_that_is_compiled_runs_its_functions_when_it_is_recorded_eagerly(recorder, x):
    model = Calls(lambda x: torch.tanh(x) + 1)
    called = torch.compile(model, backend="eager", fullgraph=True)
    plain = called(x)
    with recorder.torch(called, level="both", compiled="eager") as recording:
        assert torch.equal(called(x), plain)
    assert names(recording) == [
        "layer/linear",
        "layer",
        "Calls/tanh",
        "Calls/add",
        "Calls",
    ]
    assert torch.equal(called(x), plain)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_function_inside_of_a_model_is_compiled_and_computes_the_same(recorder, x, fullgraph, backend):
    made = []

    def build(graph, given):
        made.append(graph)
        return torch._dynamo.lookup_backend(backend)(graph, given)

    torch._dynamo.reset()
    model = Calls(torch.compile(lambda x: x.sin() * 2, backend=build, fullgraph=fullgraph))
    with recorder.torch(model, level="both") as recording, torch.no_grad():
        result = model(x)
    assert len(made) == 1
    np.testing.assert_array_equal(result.numpy(), (model.layer(x).sin() * 2).detach().numpy())
    assert {"layer/linear", "layer", "Calls"} <= set(names(recording))


def test_other_modes_still_see_every_function(recorder, x):
    seen = []

    class Sees(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    asked = torch.overrides.has_torch_function
    with Sees():
        recording = recorded(recorder, Calls(torch.tanh), x)
        # Of a mode that is not the recording's own, layers are still told.
        assert torch.overrides.has_torch_function((x,))
    assert torch.overrides.has_torch_function is asked
    assert seen.count("linear") == seen.count("tanh") == 1
    assert names(recording) == ["layer/linear", "Calls/tanh"]


def test_nested_recordings_hold_the_same(recorder, x):
    model = Calls(torch.tanh)
    with recorder.torch(model, level="both") as outer, recorder.torch(model, level="both") as inner, torch.no_grad():
        model(x)
    assert names(outer) == names(inner) == ["layer/linear", "layer", "Calls/tanh", "Calls"]
    for name in names(outer):
        np.testing.assert_array_equal(values(outer, name)[0], values(inner, name)[0])
