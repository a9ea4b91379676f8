"""Which module feeds which in a recorded PyTorch model, held against what is written by hand, and against torch.fx.

Needs PyTorch.
"""

from __future__ import annotations

import gc
import threading
import warnings
from collections import defaultdict

import numpy as np
import pytest
from live.recordings import manifest_of

from pytest_msdump.record import Recorder

torch = pytest.importorskip("torch")
nn = torch.nn
functional = nn.functional

pytestmark = pytest.mark.live

UNKNOWN = ["", 0]


def graph_of(model, run, directory, **options):
    """The calls of a recording, by name and, from the second call on, its number."""
    torch.manual_seed(0)
    with Recorder(directory).torch(model, directory=directory / "d", **options):
        run(model)
    calls = manifest_of(directory / "d")["graph"]
    names = [call["name"] + (f"@{call['occurrence']}" if "occurrence" in call else "") for call in calls]
    assert len(set(names)) == len(names)
    return dict(zip(names, calls, strict=True))


def inputs_of(model, run, directory, **options):
    return {name: call["inputs"] for name, call in graph_of(model, run, directory, **options).items()}


def batch(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def called(*shape):
    """A function that calls a model without gradients."""

    def run(model):
        with torch.no_grad():
            return model(batch(*shape))

    return run


class Block(nn.Module):
    """A block of a ResNet: one in-place activation that is called twice, and an addition that is no module."""

    def __init__(self, given, made):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(given, made, 3, padding=1, bias=False), nn.BatchNorm2d(made)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = nn.Conv2d(made, made, 3, padding=1, bias=False), nn.BatchNorm2d(made)
        self.down = nn.Conv2d(given, made, 1) if given != made else None

    def forward(self, x):
        kept = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.down is not None:
            kept = self.down(x)
        out += kept
        return self.relu(out)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.pool = nn.Conv2d(3, 4, 3), nn.MaxPool2d(2)
        self.layers = nn.Sequential(Block(4, 4), Block(4, 6))
        self.fc = nn.Linear(6, 2)

    def forward(self, x):
        x = self.layers(self.pool(self.stem(x)))
        return self.fc(torch.flatten(functional.adaptive_avg_pool2d(x, 1), 1))


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("inputs", [False, True])
def test_a_residual_network_is_as_it_is_written(tmp_path, mode, inputs):
    graph = graph_of(getattr(Net(), mode)(), called(2, 3, 12, 12), tmp_path, inputs=inputs)
    assert {name: call["inputs"] for name, call in graph.items()} == {
        "stem": [None],
        "pool": [["stem", 0]],
        "layers.0.conv1": [["pool", 0]],
        "layers.0.bn1": [["layers.0.conv1", 0]],
        "layers.0.relu": [["layers.0.bn1", 0]],
        "layers.0.conv2": [["layers.0.relu", 0, 0]],
        "layers.0.bn2": [["layers.0.conv2", 0]],
        # What is added to has two sources.
        "layers.0.relu@1": [["layers.0.bn2", 0], ["pool", 0]],
        # A block gives back the very tensor of its second activation.
        "layers.0": [["pool", 0], ["layers.0.relu", 0, 1]],
        "layers.1.conv1": [["layers.0.relu", 0, 1]],
        "layers.1.bn1": [["layers.1.conv1", 0]],
        "layers.1.relu": [["layers.1.bn1", 0]],
        "layers.1.conv2": [["layers.1.relu", 0, 0]],
        "layers.1.bn2": [["layers.1.conv2", 0]],
        "layers.1.down": [["layers.0.relu", 0, 1]],
        "layers.1.relu@1": [["layers.1.bn2", 0], ["layers.1.down", 0]],
        "layers.1": [["layers.0.relu", 0, 1], ["layers.1.relu", 0, 1]],
        "fc": [["layers.1.relu", 0, 1]],
        "Net": [None, ["fc", 0]],
    }
    assert {call.get("inside") for name, call in graph.items() if name.startswith("layers.1.")} == {"layers.1"}
    assert (graph["layers.1"]["inside"], graph["layers.1"]["type"]) == ("Net", "Block")
    assert "inside" not in graph["Net"]


def test_the_edges_are_those_that_fx_traces(tmp_path):
    """Another program of PyTorch finds the modules that feed each module by following its own trace."""
    model = nn.ModuleDict({str(number): module for number, module in enumerate([Net().eval()])})["0"]
    traced = torch.fx.symbolic_trace(model)
    times: defaultdict[str, int] = defaultdict(int)
    sources, expected = {}, {}
    for node in traced.graph.nodes:
        found = set().union(*(sources[one] for one in node.all_input_nodes)) if node.all_input_nodes else set()
        if node.op == "call_module":
            call = (node.target, times[node.target])
            times[node.target] += 1
            expected[call] = found
            found = {call}
        sources[node] = found
    calls = graph_of(model, called(2, 3, 12, 12), tmp_path)
    found = {
        (call["name"], call.get("occurrence", 0)): {(one[0], [*one, 0][2]) for one in call["inputs"] if one}
        for call in calls.values()
    }
    assert {call: edges for call, edges in found.items() if call in expected} == expected


def test_each_call_of_a_shared_module_is_one(tmp_path):
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.act = nn.Linear(4, 4), nn.Tanh()

        def forward(self, x):
            one = self.act(self.first(x))
            two = self.act(one * 2)
            return self.act(two + one)

    assert inputs_of(Shared(), called(2, 4), tmp_path) == {
        "first": [None],
        "act": [["first", 0]],
        "act@1": [["act", 0, 0]],
        "act@2": [["act", 0, 1], ["act", 0, 0]],
        "Shared": [None, ["act", 0, 2]],
    }


def test_averages_that_a_shared_batch_norm_keeps_are_no_source(tmp_path):
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4)

        def forward(self, x):
            return self.norm(self.a(x)), self.norm(self.b(x))

    found = inputs_of(Shared().train(), called(3, 4), tmp_path)
    assert (found["norm"], found["norm@1"]) == ([["a", 0]], [["b", 0]])


def test_views_parts_and_what_is_written_in_place_are_followed(tmp_path):
    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.a, self.b, self.c = nn.Linear(4, 12), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
            self.join, self.last, self.two = nn.Linear(8, 4), nn.Linear(4, 4), nn.Bilinear(4, 4, 4)
            self.register_buffer("kept", torch.ones(4))

        def forward(self, x):
            q, k, _ = self.qkv(x).chunk(3, dim=-1)
            a, b = self.a(q.transpose(0, 1).T.unsqueeze(0)[0]), self.b(k)
            buffer = torch.empty(len(x), 8)
            buffer[:, :4] = a
            torch.add(b, 1, out=buffer[:, 4:])
            joined = self.join(buffer)
            joined.mul_(self.kept).sigmoid_()
            constant = self.c(torch.arange(4.0))
            return self.two(self.last(joined), joined + constant)

    assert inputs_of(Parts(), called(2, 4), tmp_path) == {
        "qkv": [None],
        "a": [["qkv", 0]],
        "b": [["qkv", 0]],
        "join": [["b", 0], ["a", 0]],
        "c": [None],
        "last": [["join", 0]],
        "two": [["last", 0], ["join", 0], ["c", 0]],
        "Parts": [None, ["two", 0]],
    }


def test_a_slice_that_a_module_gives_back_says_nothing_of_the_rest(tmp_path):
    class Half(nn.Module):
        def forward(self, x):
            return x[:, :2]

    class Slices(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.part, self.of_half, self.of_all = nn.Linear(4, 4), Half(), nn.Linear(2, 2), nn.Linear(4, 4)

        def forward(self, x):
            whole = self.a(x)
            half = self.part(whole)
            return self.of_half(half), self.of_all(whole)

    found = inputs_of(Slices(), called(2, 4), tmp_path)
    assert (found["of_half"], found["of_all"]) == ([["part", 0]], [["a", 0]])


def test_a_module_that_computes_with_what_modules_inside_gave_back_is_the_source(tmp_path):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x):
            return self.inner(x) + x

    model = nn.Sequential(nn.Linear(4, 4), Outer(), nn.Linear(4, 4))
    assert inputs_of(model, called(2, 4), tmp_path) == {
        "0": [None],
        "1.inner": [["0", 0]],
        "1": [["0", 0], ["1.inner", 0]],
        "2": [["1", 0]],
        "Sequential": [None, ["2", 0]],
    }


def test_several_outputs_are_told_apart(tmp_path):
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.a, self.b = nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            made, (hidden, cell) = self.lstm(x)
            return self.a(made), self.b(hidden[0] + cell[0])

    found = inputs_of(Both(), called(2, 5, 4), tmp_path)
    assert (found["a"], found["b"]) == ([["lstm", 0]], [["lstm", 1], ["lstm", 2]])


def test_an_attention_layer_is_followed_through_its_operations(tmp_path):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    found = inputs_of(layer, lambda model: model(batch(2, 5, 8)), tmp_path, exclude=["dropout*", "self_attn.*"])
    assert found == {
        "self_attn": [None, None, None],
        "norm1": [["self_attn", 0]],
        "linear1": [["norm1", 0]],
        "linear2": [["linear1", 0]],
        "norm2": [["norm1", 0], ["linear2", 0]],
        "TransformerEncoderLayer": [None, ["norm2", 0]],
    }


@pytest.mark.parametrize("level", ["operation", "both"])
def test_operations_that_are_recorded_are_calls_themselves(tmp_path, level):
    class Twice(nn.Module):
        def forward(self, x):
            return torch.relu_((x * 2).view(-1)) + 1

    given = batch(2, 4)
    graph = graph_of(Twice(), lambda model: model(given).sum(), tmp_path, level=level)
    operations = {
        "Twice/mul": [None],
        "Twice/relu_": [["Twice/mul", 0]],
        "Twice/add": [["Twice/relu_", 0]],
        "outside/sum": [["Twice/add", 0]],
    }
    module = {"Twice": [None, ["Twice/add", 0]]} if level == "both" else {}
    assert {name: call["inputs"] for name, call in graph.items()} == operations | module
    assert graph["Twice/add"].get("inside") == ("Twice" if level == "both" else None)
    assert "inside" not in graph["outside/sum"]


# -- What cannot be seen, and what must not be disturbed -------------------------------------------------------------


class Between(nn.Module):
    """Two layers, and something between them."""

    def __init__(self, between):
        super().__init__()
        self.a, self.b, self.between = nn.Linear(4, 4), nn.Linear(4, 4), between

    def forward(self, x):
        return self.b(self.between(self.a(x)))


def scripted(module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.jit.script(module)


def in_a_thread(x):
    made = []
    thread = threading.Thread(target=lambda: made.append(x.detach() * 2))
    thread.start()
    thread.join()
    return made[0]


@pytest.mark.parametrize(
    "between", [in_a_thread, lambda x: torch.from_numpy(np.tanh(x.numpy())), lambda x: x.relu().to_sparse().to_dense()]
)
def test_what_cannot_be_followed_is_said_to_be_unknown(tmp_path, between):
    assert inputs_of(Between(between), called(2, 4), tmp_path)["b"] == [UNKNOWN]


@pytest.mark.parametrize(
    "between",
    [
        torch.vmap(lambda row: row.sin() * 2),
        lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
        scripted(nn.Sequential(nn.ReLU(), nn.Tanh())),
        torch.compile(lambda x: x.sin() * 2, backend="eager"),
    ],
)
def test_transformed_operations_are_followed(tmp_path, between):
    found = inputs_of(Between(between), called(2, 4), tmp_path, modules=["a", "b"])
    assert found == {"a": [None], "b": [["a", 0]]}


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_that_runs_again_is_one_call(tmp_path, reentrant):
    class Saved(Between):
        def forward(self, x):
            made = torch.utils.checkpoint.checkpoint(self.a, x, use_reentrant=reentrant)
            return self.b(made.relu())

    def train(model):
        model(batch(2, 4).requires_grad_()).sum().backward()

    found = inputs_of(Saved(None), train, tmp_path, gradients=True)
    assert found == {"a": [None], "b": [["a", 0]], "Saved": [None, ["b", 0]]}


def test_every_iteration_has_its_own_graph(tmp_path):
    model = Between(torch.relu)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with Recorder(tmp_path).torch(model, directory=tmp_path / "d", iterations=True) as recording:
        for _ in range(2):
            with recording.iteration():
                optimizer.zero_grad()
                model(batch(2, 4)).sum().backward()
                optimizer.step()
    calls = manifest_of(tmp_path / "d")["graph"]
    # What an optimizer writes to weights is not what feeds a module.
    once = [("a", [None]), ("b", [["a", 0]]), ("Between", [None, ["b", 0]])]
    assert [(call["name"], call["inputs"]) for call in calls] == once * 2
    assert [call.get("iteration", 0) for call in calls] == [0, 0, 0, 1, 1, 1]


def test_an_encoder_keeps_its_fast_path(tmp_path):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    # On the fast path no module inside of a layer is called.
    assert inputs_of(encoder, called(2, 5, 8), tmp_path) == {
        "layers.0": [None],
        "layers.1": [["layers.0", 0]],
        "TransformerEncoder": [None, ["layers.1", 0]],
    }


def test_the_graph_is_left_out_where_it_is_not_wanted(tmp_path):
    assert graph_of(Net(), called(2, 3, 12, 12), tmp_path, graph=False) == {}


def test_a_recording_that_fails_has_no_calls_of_the_next(tmp_path):
    model = Between(lambda x: x if x.shape[0] == 2 else 1 / 0)
    with Recorder(tmp_path).torch(model, directory=tmp_path / "d"):
        with pytest.raises(ZeroDivisionError):
            model(batch(3, 4))
        model(batch(2, 4))
    calls = manifest_of(tmp_path / "d")["graph"]
    assert [(call["name"], call["inputs"]) for call in calls] == [
        ("a", [None]),
        ("a", [None]),
        ("b", [["a", 0, 1]]),
        ("Between", [None, ["b", 0]]),
    ]


def test_no_more_is_followed_than_the_model_keeps(tmp_path):
    from torch.multiprocessing.reductions import StorageWeakRef

    followed = []

    def count():
        followed.append(sum(type(one) is StorageWeakRef for one in gc.get_objects()))

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.last = torch.nn.Linear(4, 4)

        def forward(self, x):
            for _ in range(2000):
                x = x * 1.0
            count()
            return self.last(x)

    net = Net()
    with Recorder(tmp_path).torch(net, directory=tmp_path / "d") as recording:
        net(torch.ones(1, 4))
    count()
    del recording
    assert followed[0] < 100
    assert followed[1] == 0
