"""Perturbed and control runs of PyTorch: what they compute, what is recorded, and that everything is put back."""

import warnings
from contextlib import suppress

import numpy as np
import pytest
from live.recordings import manifest_of

from pytest_msdump import assert_dumps_close, open_dump
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.record import Control, Perturbation

torch = pytest.importorskip("torch")
nn = torch.nn
functional = nn.functional

pytestmark = pytest.mark.live

CONTROLS = ("threads=1", "channels_last", "batch_split", "onednn=off", "sdpa=math")


class Net(nn.Module):
    """Four axes, a norm with buffers, attention, an input that is a mapping."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)
        self.register_buffer("mask", torch.tensor([0.0, float("-inf"), torch.finfo(torch.float32).min]))

    def forward(self, given, *, scale):
        hidden = torch.relu(self.norm(self.conv(given["image"]))).flatten(2).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(hidden, hidden, hidden)
        return {"out": self.head(mixed.mean(1)) * scale, "rest": (mixed, None)}


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def image():
    return torch.randn(4, 3, 9, 9, generator=torch.Generator().manual_seed(1))


def call(model, image):
    return model({"image": image}, scale=2.0)["out"]


def state_of(model):
    """Everything that a run may leave behind."""
    return {
        "weights": {name: (id(one), one.data_ptr(), one.stride(), one.detach().clone()) for name, one in named(model)},
        "threads": torch.get_num_threads(),
        "onednn": torch.backends.mkldnn.enabled,
        "math": (torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()),
        "forward": sorted(vars(model)),
    }


def bits(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def named(model):
    return [*model.named_parameters(), *model.named_buffers()]


def assert_same_state(model, before):
    after = state_of(model)
    for name, kept in before.pop("weights").items():
        new = after["weights"][name]
        assert new[:3] == kept[:3], name
        assert bits(new[3]) == bits(kept[3]), name
    after.pop("weights")
    assert after == before


def variations():
    return [
        *({"control": Control(name)} for name in ("threads=3", *CONTROLS)),
        {"perturb": Perturbation(1)},
        {"perturb": Perturbation(1, what="input"), "control": Control("channels_last")},
    ]


@pytest.mark.parametrize("options", variations(), ids=str)
@pytest.mark.parametrize("fails", [False, True])
def test_everything_is_put_back_also_after_an_error(recorder, model, image, options, fails):
    before, kept = state_of(model), image.clone()
    with suppress(ZeroDivisionError), recorder.torch(model, **options):
        call(model, image)
        if fails:
            raise ZeroDivisionError
    assert image.equal(kept)
    assert_same_state(model, before)


def test_what_the_run_itself_writes_to_buffers_is_put_back_with_perturbed_weights(recorder, image):
    model = Net().train()
    before = state_of(model)
    with recorder.torch(model, perturb=Perturbation(1)) as recording:
        call(model, image)
        assert model.norm.num_batches_tracked == 1
        model.norm.running_var = model.norm.running_var * 2
    assert_same_state(model, before)
    assert model.norm.running_var is recording.model.get_buffer("norm.running_var")


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_has_the_tensors_of_the_reference(recorder, model, image, name):
    forward_only = name == "batch_split"
    options = {"inputs": True, "parameters": True, "gradients": not forward_only}

    def recorded(**more):
        model.zero_grad()
        with recorder.torch(model, modules=None, **options, **more) as recording:
            call(model, image).square().sum().backward()
        return recording

    reference, control = recorded(), recorded(control=Control(name))
    ours, theirs = (manifest_of(one) for one in (control, reference))
    assert ours["notes"] == [f"a control run: {name}"]
    for key in ("inputs", "weights", *(() if forward_only else ("graph",))):
        assert ours[key] == theirs[key] != []
    one, other = (open_dump(each.directory) for each in (control, reference))
    assert list(one) == list(other)
    assert [one.open(address).shape for address in one] == [other.open(address).shape for address in other]
    report = assert_dumps_close(one, other, limits={"rel_euclid": 1e-5})
    assert {record.verdict.outcome for record in report.records} == {"pass"}


def test_settings_hold_while_the_block_runs(recorder, model, image, monkeypatch):
    found = {}
    attention = functional.scaled_dot_product_attention

    def looked(*args, **kwargs):
        found["threads"], found["onednn"] = torch.get_num_threads(), torch.backends.mkldnn.enabled
        found["flash"] = torch.backends.cuda.flash_sdp_enabled()
        return attention(*args, **kwargs)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", looked)
    for name, key, value in (
        ("threads=3", "threads", 3),
        ("onednn=off", "onednn", False),
        ("sdpa=math", "flash", False),
    ):
        with recorder.torch(model, control=Control(name)):
            call(model, image)
        assert found[key] == value


def test_channels_last_is_what_layers_get(recorder, model, image):
    found = []
    model.conv.register_forward_pre_hook(lambda module, args: found.extend((args[0].stride(), module.weight.stride())))
    with recorder.torch(model, control=Control("channels_last")):
        call(model, image)
    assert found == [one.to(memory_format=torch.channels_last).stride() for one in (image, model.conv.weight)]
    assert image.stride() not in found


# -- perturbed runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["input", "input+weights"])
def test_a_perturbed_run_is_that_of_the_perturbed_model(recorder, model, image, what):
    perturb = Perturbation(5, 2.0**-10, what)
    with recorder.torch(model, perturb=perturb, inputs=True, parameters=True) as recording:
        result = call(model, image)
    other = Net().eval()
    other.load_state_dict(model.state_dict())
    if what == "input+weights":
        for name, tensor in named(other):
            tensor.data = torch.from_numpy(np.array(perturb(name, tensor.detach().numpy())))
    expected = call(other, torch.from_numpy(perturb("0/0.image", image.numpy())))
    assert result.detach().numpy().tobytes() == expected.detach().numpy().tobytes()
    assert not torch.equal(expected, call(model, image))
    dump = open_dump(recording.directory)
    assert dump.read("Net:output:0").tobytes() == expected.detach().numpy().tobytes()
    assert dump.read("mask").tobytes() == dict(named(other))["mask"].numpy().tobytes()
    said = manifest_of(recording)
    assert said["perturbation"] == {"u": 2.0**-10, "what": what, "seed": 5}


def test_digests_and_graph_are_those_of_the_reference(recorder, model, image):
    manifests = []
    for options in ({}, {"perturb": Perturbation(1)}):
        with recorder.torch(model, **options) as recording:
            call(model, image)
        manifests.append(manifest_of(recording))
    plain, perturbed = manifests
    for key in ("inputs", "weights", "graph"):
        assert plain[key]
        assert plain[key] == perturbed[key]
    assert "perturbation" not in plain
    assert perturbed["perturbation"] == {"u": 2.0**-24, "what": "input+weights", "seed": 1}


def test_gradients_go_through_to_what_was_given(recorder, model, image):
    image.requires_grad_()
    image.data[0, 0, 0, 0] = 0.0
    with recorder.torch(model, perturb=Perturbation(1), gradients=True) as recording:
        call(model, image).square().sum().backward()
    infinite = torch.tensor([np.inf, 1.0], requires_grad=True)
    with recorder.torch(nn.Identity(), perturb=Perturbation(1)) as identity:
        identity.model(infinite).sum().backward()
        assert identity.model(infinite)[0] == np.inf
    assert infinite.grad.tolist() == [1, 1]
    assert image.grad is not None
    grad_input = open_dump(recording.directory).read("conv/grad_input:output:0")
    assert grad_input.tobytes() == image.grad.numpy().tobytes()


def test_each_iteration_has_noise_of_its_own_and_inner_calls_have_none(recorder, image):
    model = nn.Sequential(nn.Identity(), nn.Sequential(nn.Identity()))
    with recorder.torch(model, modules="*", perturb=Perturbation(1, 2.0**-8), iterations=True) as recording:
        for _ in range(2):
            with recording.iteration():
                model(image)
    by_iteration = {"0": set(), "1": set()}
    for file in manifest_of(recording)["tensors"]:
        by_iteration[file.partition("/")[0]].add(np.load(recording.directory / file).tobytes())
    assert [len(values) for values in by_iteration.values()] == [1, 1]
    assert len(set.union(*by_iteration.values(), [image.numpy().tobytes()])) == 3


def test_a_checkpoint_that_runs_again_is_not_perturbed_again(recorder, image):
    from torch.utils.checkpoint import checkpoint

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 2, 3)

        def forward(self, x):
            return checkpoint(self.conv, x, use_reentrant=True) if self.training else self.conv(x)

    torch.manual_seed(0)
    model = Model()
    inputs = []
    model.conv.register_forward_hook(lambda _, args, __: inputs.append(args[0].detach().clone()))
    image.requires_grad_()
    with recorder.torch(model, perturb=Perturbation(1, 2.0**-8), gradients=True):
        model(image).square().sum().backward()
    first, again = inputs
    assert first.equal(again)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.complex64])
def test_every_type_of_weight_is_perturbed_by_its_own_unit(recorder, dtype):
    units = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float64: 2.0**-53, torch.complex64: 2.0**-24}
    model = nn.Linear(50, 50, bias=False, dtype=dtype)
    before = model.weight.detach().clone()
    with recorder.torch(model, perturb=Perturbation(1), parameters=True) as recording:
        model(torch.ones(2, 50, dtype=dtype))
        inside = model.weight.detach().clone()
    assert manifest_of(recording)["perturbation"]["u"] == units[dtype]
    moved = (inside != before).double().mean().item()
    assert 0.2 < moved < 0.5
    assert (inside - before).abs().max() <= 2 * units[dtype] * before.abs().max()
    assert model.weight.equal(before)


def test_a_step_of_training_is_undone_with_the_noise(recorder, image):
    model = Net().train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    with recorder.torch(model, perturb=Perturbation(1), gradients=True, optimizer=optimizer) as recording:
        call(model, image).square().mean().backward()
        optimizer.step()
    updated = open_dump(recording.directory).read("head.bias/updated")
    assert not np.array_equal(updated, before["head.bias"].numpy())
    for name, tensor in model.state_dict().items():
        assert tensor.equal(before[name]), name


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_it_works_in_modes_without_gradients(recorder, model, image, mode):
    with mode(), recorder.torch(model, perturb=Perturbation(1)) as recording:
        call(model, image)
    assert manifest_of(recording)["perturbation"]
    call(model, image).sum().backward()


def test_a_keyword_a_dataclass_and_what_is_no_tensor_reach_the_model(recorder):
    class Model(nn.Module):
        def forward(self, x, flag, *, more=None, ids=None):
            assert flag == "flag"
            assert ids.dtype == torch.int64
            return x + more[0]

    x = torch.ones(1000)
    with recorder.torch(Model(), perturb=Perturbation(1, 2.0**-6), inputs=True) as recording:
        recording.model(x, "flag", more=[x], ids=torch.arange(3))
    dump = open_dump(recording.directory)
    given = [dump.read(f"Model:input:{slot}") for slot in range(3)]
    assert not np.array_equal(given[0], given[1])
    assert given[2].tolist() == [0, 1, 2]
    np.testing.assert_array_equal(dump.read("Model:output:0"), given[0] + given[1])


# -- halves of a batch ------------------------------------------------------------------------------------------------


def test_halves_of_an_odd_batch_are_joined(recorder):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 4), nn.GELU(), nn.Flatten(0), nn.Unflatten(0, (-1, 4))).eval()
    seen = []
    model[0].register_forward_hook(lambda *values: seen.append(len(values[2])))
    x = torch.randn(5, 6)
    with recorder.torch(model, modules="*", control=Control("batch_split"), inputs=True) as recording:
        result = model(x)
    assert seen == [2, 3]
    assert result.allclose(model(x))
    dump = open_dump(recording.directory)
    assert dump.open("2:output:0").shape == (20,)
    np.testing.assert_allclose(dump.read("0:output:0"), (x @ model[0].weight.T + model[0].bias).detach(), rtol=1e-5)
    np.testing.assert_array_equal(dump.read("0:input:0"), x)


def test_what_has_no_batch_and_is_the_same_in_both_halves_is_recorded_once(recorder):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.places = nn.Embedding(7, 4)

        def forward(self, x):
            return x + self.places(torch.arange(7)[None])

    with recorder.torch(Model(), control=Control("batch_split")) as recording:
        recording.model(torch.ones(6, 7, 4))
    assert open_dump(recording.directory).open("places:output:0").shape == (1, 7, 4)


class Sized(nn.Module):
    """Gives back what a test says."""

    def __init__(self, function):
        super().__init__()
        self.inner = nn.Identity()
        self.function = function

    def forward(self, x):
        return self.function(self.inner, x)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda inner, x: inner(x.mean()), r"inner has a tensor of shape \(\) for 2 samples"),
        (lambda inner, x: inner(x.T), r"inner has a tensor of shape \(3, 2\) for 2 samples"),
        (lambda _, x: x.sum(0), r"Sized has a tensor of shape \(3,\)"),
        (lambda inner, x: inner(x) if x[0, 0] == 0 else x, "halves of the batch call inner differently"),
        (lambda inner, x: inner(x) if x[0, 0] != 0 else x, "halves of the batch call inner differently"),
        (lambda _, x: {"a": x} if x[0, 0] == 0 else {"b": x}, "halves of the batch call Sized differently"),
    ],
)
def test_what_is_no_batch_is_refused(recorder, function, message):
    with (
        pytest.raises(ConfigError, match=message),
        recorder.torch(Sized(function), control=Control("batch_split")) as it,
    ):
        it.model(torch.arange(12.0).reshape(4, 3))


@pytest.mark.parametrize("given", [(torch.ones(1, 3),), (torch.ones(4, 3), torch.ones(2, 4, 3)), (torch.ones(()),), ()])
def test_inputs_without_a_batch_are_refused(recorder, given):
    class Model(nn.Module):
        def forward(self, *values):
            return torch.ones(len(values), 3)

    with (
        pytest.raises(ConfigError, match="inputs that have the batch"),
        recorder.torch(Model(), control=Control("batch_split")) as recording,
    ):
        recording.model(*given)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(3), nn.Dropout(0.5)])
def test_layers_that_mix_samples_or_draw_numbers_are_refused_in_training_mode(recorder, layer):
    with pytest.raises(ConfigError, match="1 is in training mode"):
        recorder.torch(nn.Sequential(nn.Linear(3, 3), layer), control=Control("batch_split"))
    recorder.torch(nn.Sequential(nn.Linear(3, 3), layer).eval(), control=Control("batch_split"))
    recorder.torch(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.0)), control=Control("batch_split"))


def test_a_batch_that_was_never_split_is_no_control(recorder):
    model = nn.Sequential(nn.Linear(3, 3))
    with (
        pytest.raises(ConfigError, match="batch_split splits what Sequential itself is given"),
        recorder.torch(model, control=Control("batch_split")),
    ):
        model[0](torch.ones(4, 3))
    with pytest.raises(ConfigError, match="batch_split is of forward runs"):
        recorder.torch(model, control=Control("batch_split"), gradients=True)


class Large(nn.Module):
    """Weights of every kind of memory: its own, twice the same, a part of another's, an array's, another process's."""

    def __init__(self, rows: int = 256):
        super().__init__()
        self.own = nn.Linear(256, rows)
        self.coarse = nn.Parameter(torch.randn(256, 256).bfloat16())
        self.turned = nn.Parameter(torch.randn(256, 256).t())
        self.tied = nn.Linear(256, 256)
        self.tied.weight = nn.Parameter(self.own.weight.data)
        self.of_array = nn.Parameter(torch.from_numpy(np.ones((256, 256), "float32")))
        self.of_read_only_file = nn.Parameter(torch.ones(256, 256))
        self.shared = nn.Parameter(torch.randn(256, 256).share_memory_())

    def forward(self, x):
        parts = (self.turned, self.of_array, self.of_read_only_file, self.shared, self.coarse.float())
        return self.tied(self.own(x)) + sum(x @ part for part in parts)


@pytest.mark.parametrize("change", ["nothing", "weights", "raises"])
def test_large_weights_are_those_from_before_after_a_perturbed_run(recorder, tmp_path, change):
    model, x = Large().eval(), torch.randn(2, 256)
    np.save(tmp_path / "weights.npy", np.ones((256, 256), "float32"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not writable
        model.of_read_only_file.data = torch.from_numpy(np.load(tmp_path / "weights.npy", mmap_mode="r"))
    before, perturb = state_of(model), Perturbation(1, 2.0**-6)
    floats = {name: tensor for name, tensor in named(model) if tensor.dtype == torch.float32}
    expected = {name: perturb(name, tensor.detach().numpy()).tobytes() for name, tensor in floats.items()}
    with suppress(ZeroDivisionError), recorder.torch(model, perturb=perturb):
        model(x)
        assert {name: bits(tensor) for name, tensor in floats.items()} == expected
        assert bits(model.coarse) != bits(before["weights"]["coarse"][3])
        if change == "weights":
            with torch.no_grad():
                model.own.weight.mul_(3)
                model.own.bias.data.zero_()
        if change == "raises":
            raise ZeroDivisionError
    assert_same_state(model, before)
