"""Recorded gradients beside those that PyTorch itself gives. Needs PyTorch."""

import collections

import numpy as np
import pytest
from live.recordings import arrays_of

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.record import Recorder

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = pytest.mark.live


@pytest.fixture
def recorder(tmp_path):
    torch.manual_seed(0)
    return Recorder(tmp_path)


@pytest.fixture
def x():
    return torch.randn(3, 4, generator=torch.Generator().manual_seed(1), requires_grad=True)


def found(recording):
    """Arrays by name and slot, in the order of writing."""
    arrays = collections.defaultdict(list)
    for (name, _, slot), several in arrays_of(recording).items():
        arrays[name, slot] += several
    return arrays


def of_pytorch(model, run):
    """What PyTorch's own backward hooks of modules say, by name and slot."""
    seen = collections.defaultdict(list)

    def told(name):
        def hook(_, given, out):
            for kind, gradients in (("grad_input", given), ("grad_output", out)):
                for slot, gradient in enumerate(gradients):
                    if gradient is not None:
                        seen[f"{name}/{kind}", slot].append(gradient.clone().numpy())

        return hook

    names = dict(model.named_modules())
    handles = [module.register_full_backward_hook(told(name or type(model).__name__)) for name, module in names.items()]
    run()
    for handle in handles:
        handle.remove()
    return seen


class Residual(nn.Module):
    """Each tensor goes several ways; layers share, split and join."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.join = nn.Linear(4, 4), nn.Linear(4, 4), nn.Bilinear(4, 4, 4)
        self.act, self.norm = nn.GELU(), nn.LayerNorm(4)

    def forward(self, x):
        hidden = self.act(self.first(x)) + x
        hidden = self.second(hidden) * 2 + hidden
        hidden = self.join(hidden, self.act(self.second(x)))
        return self.norm(hidden)


def test_gradients_of_inputs_and_outputs_are_those_of_pytorchs_own_hooks(recorder, x):
    model = Residual()
    expected = of_pytorch(model, lambda: model(x).square().sum().backward())
    with recorder.torch(model, gradients=True) as recording:
        model(x).square().sum().backward()
    got = {key: arrays for key, arrays in found(recording).items() if "/grad_" in key[0]}
    assert set(got) == set(expected)
    assert len(expected) == 13
    for key, arrays in expected.items():
        assert len(got[key]) == len(arrays), key
        for left, right in zip(got[key], arrays, strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-7, err_msg=str(key))


def test_gradients_of_parameters_are_those_that_were_added_up(recorder, x):
    model = Residual()
    with recorder.torch(model, gradients=True) as recording:
        for _ in range(2):
            model(x).square().sum().backward()
    for name, parameter in model.named_parameters():
        first, second = found(recording)[f"{name}/grad", 0]
        np.testing.assert_array_equal(second, parameter.grad.numpy())
        np.testing.assert_allclose(second, 2 * first, rtol=1e-6)


def test_layers_that_work_in_place_have_gradients(recorder, x):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
    before = nn.functional.linear(x, model[0].weight, model[0].bias)
    after = before.relu()
    before_grad, after_grad = torch.autograd.grad(model[2](after).sum(), [before, after])
    with recorder.torch(model, gradients=True) as recording:
        model(x).sum().backward()
    got = found(recording)
    np.testing.assert_array_equal(got["0/grad_output", 0][0], before_grad.numpy())
    np.testing.assert_array_equal(got["1/grad_input", 0][0], before_grad.numpy())
    np.testing.assert_array_equal(got["1/grad_output", 0][0], after_grad.numpy())
    assert (before_grad != after_grad).any()


def test_attention_to_itself_has_the_gradient_of_its_one_input(recorder):
    model = nn.MultiheadAttention(8, 2, batch_first=True)
    given = torch.randn(2, 3, 8, requires_grad=True)
    with recorder.torch(model, gradients=True) as recording:
        model(given, given, given)[0].sum().backward()
    got = found(recording)
    np.testing.assert_allclose(got["MultiheadAttention/grad_input", 0][0], given.grad.numpy(), rtol=1e-5, atol=1e-6)
    assert ("MultiheadAttention/grad_input", 1) not in got


def test_an_output_that_the_loss_does_not_use_does_not_hold_back_the_gradient(recorder, x):
    class Two(nn.Module):
        def forward(self, x):
            return x * 2, x * 3, (x * 5).sum()

    model = Two()
    with recorder.torch(model, gradients=True) as recording:
        first, unused, last = model(x)
        (first.sum() + last).backward()
        # The record came in the backward pass, in its place.
        recording._background.wait()
        count = len(list(recording.directory.glob("*.npy")))
    del unused
    got = found(recording)
    (gradient,) = got["Two/grad_input", 0]
    np.testing.assert_array_equal(gradient, np.full((3, 4), 7.0))
    assert sorted(slot for name, slot in got if name == "Two/grad_output") == [0, 2]
    assert count == 3 + 2 + 1


def test_two_backward_passes_through_one_graph_are_two_records(recorder, x):
    model = Residual()
    with recorder.torch(model, gradients=True) as recording:
        result = model(x)
        result.sum().backward(retain_graph=True)
        result.sum().backward()
    got = found(recording)
    for key in (("Residual/grad_input", 0), ("norm/grad_output", 0)):
        first, second = got[key]
        np.testing.assert_array_equal(first, second)


# PyTorch 2.4 warns of what it calls itself.
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_parts_are_recorded_once_with_their_gradients(recorder, x, reentrant):
    from torch.utils.checkpoint import checkpoint

    class Saves(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.last = Residual(), nn.Linear(4, 4)

        def forward(self, x):
            return self.last(checkpoint(self.inner, x, use_reentrant=reentrant))

    model = Saves()
    inner = model.inner(x).detach().numpy()
    with recorder.torch(model, gradients=True, inputs=True, level="both") as recording:
        model(x).sum().backward()
    got = found(recording)
    # Input and output of the forward pass; nothing of the second one inside of the backward pass.
    np.testing.assert_array_equal(got["inner", 0][1], inner)
    assert len(got["inner", 0]) == 2
    assert len(got["inner.norm", 0]) == 2
    expected = torch.autograd.grad(model.last(model.inner(x)).sum(), model.inner.norm.weight)[0]
    np.testing.assert_allclose(got["inner.norm.weight/grad", 0][0], expected.numpy(), rtol=1e-6)
    assert ("inner.norm/grad_output", 0) in got


def test_sparse_gradients_are_recorded_dense(recorder):
    model = nn.Embedding(5, 2, sparse=True)
    with recorder.torch(model, gradients=True) as recording:
        model(torch.tensor([1, 3, 1])).sum().backward()
    np.testing.assert_array_equal(found(recording)["weight/grad", 0][0], [[0, 0], [2, 2], [0, 0], [1, 1], [0, 0]])


def test_frozen_parameters_have_no_gradient_and_the_rest_has(recorder, x):
    model = Residual()
    model.first.weight.requires_grad_(requires_grad=False)
    with recorder.torch(model, gradients=True) as recording:
        model(x.detach()).sum().backward()
    got = found(recording)
    assert ("first.weight/grad", 0) not in got
    assert ("first.bias/grad", 0) in got
    assert ("first/grad_input", 0) not in got


@pytest.mark.parametrize("level", ["operation", "both"])
def test_operations_have_gradients_as_modules_have(recorder, x, level):
    class Scales(nn.Module):
        def __init__(self):
            super().__init__()
            self.by = nn.Parameter(torch.tensor([2.0, 3.0, 4.0, 5.0]))

        def forward(self, x):
            scaled = x * self.by
            return scaled.relu_() + 1

    model = Scales()
    with recorder.torch(model, gradients=True, level=level) as recording:
        model(x).square().sum().backward()
    got = {name: arrays[0] for (name, _), arrays in found(recording).items()}
    scaled = (x * model.by).detach().numpy()
    arrived = 2 * (scaled.clip(0) + 1)
    np.testing.assert_allclose(got["Scales/add/grad_output"], arrived, rtol=1e-6)
    np.testing.assert_allclose(got["Scales/mul/grad_output"], arrived * (scaled > 0), rtol=1e-6)
    np.testing.assert_allclose(
        got["Scales/mul/grad_input"], arrived * (scaled > 0) * model.by.detach().numpy(), rtol=1e-6
    )
    # The gradient of a weight is that of the model, once; and the backward pass has no operations of its own.
    assert [name for name, slot in found(recording) if name.startswith("Scales/mul/grad_input") or slot] == [
        "Scales/mul/grad_input"
    ]
    np.testing.assert_allclose(got["by/grad"], (arrived * (scaled > 0) * x.detach().numpy()).sum(0), rtol=1e-5)
    operations = {"Scales/mul", "Scales/relu_", "Scales/add", "outside/square", "outside/sum"}
    assert {name.partition("/grad")[0] for name in got} - {"by", "Scales"} == operations


def test_a_backward_pass_after_its_iteration_is_no_recorded_gradient(recorder, x):
    model = nn.Linear(4, 4)

    def record_late():
        with recorder.torch(model, gradients=True) as recording:
            with recording.iteration():
                loss = model(x).sum()
            loss.backward()

    with pytest.raises(ConfigError, match="gradients of Linear were asked for, and none came"):
        record_late()
