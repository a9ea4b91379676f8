"""A reference of PyTorch replayed with the tensors of ports: what is accused, and what is not judged, and why."""

from __future__ import annotations

import copy
import dataclasses
import json
import subprocess
import sys
import textwrap
from contextlib import nullcontext

import numpy as np
import pytest

from pytest_msdump import assert_replay
from pytest_msdump.capabilities.replay.pairing import suggest_with
from pytest_msdump.capabilities.replay.reference_model import reference_of, replay_plan
from pytest_msdump.capabilities.suggest.partners import suggest_partners
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.report.json_report import read_json
from pytest_msdump.core.suite import load_suite
from pytest_msdump.record import Recorder

torch = pytest.importorskip("torch")
nn = torch.nn
functional = nn.functional

pytestmark = pytest.mark.live


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.act, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class Net(nn.Module):
    """Blocks with residuals, attention of functions between modules, a head whose weight is the embedding's."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.query, self.key, self.value = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids)
        x = x + torch.softmax(self.query(x) @ self.key(x).mT / 4, -1) @ self.value(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


IDS = torch.randint(0, 20, (8, 12), generator=torch.Generator().manual_seed(5))


def made(build=Net, train=False):
    torch.manual_seed(2)
    return build().train(train)


def run(model, given):
    return given(model) if callable(given) else model(*given) if isinstance(given, tuple) else model(given)


def record(folder, model, given, around=None, **options):
    with Recorder(folder.parent).torch(model, directory=folder, **options), around or nullcontext():
        run(model, given)


def replayed(folder, reference, port, given=IDS, around=None, table=None, **options):
    """Return what a replay says, by the address of the reference; recorded are the reference and the port."""
    grad = options.get("gradients", False)
    with torch.set_grad_enabled(grad):
        record(folder / "right", copy.deepcopy(reference), given, **options)
        record(folder / "left", port, given, around, **options)
    planned = planned_of(folder, io="all", **(table or {}))
    before = {name: one.clone() for name, one in reference.state_dict().items()}
    found = replay_plan(planned, reference_of(reference, given))
    for name, one in reference.state_dict().items():
        torch.testing.assert_close(one, before[name], rtol=0, atol=0)
    assert sorted(found) == list(range(len(planned.pairing.pairs)))
    keys = [pair.right.key for pair in planned.pairing.pairs]
    return {
        f"{keys[number].op.label}@{keys[number].op.at.occurrence or 0}:{keys[number].io}:{keys[number].slot}": one
        for number, one in found.items()
    }


def planned_of(folder, **table):
    table = {"left": str(folder / "left"), "right": str(folder / "right"), **table}
    return plan(load_suite(file=None, table=table, options={}, directory=folder))


def wrong(found):
    return {name.partition("@")[0] for name, one in found.items() if one.outcome == "fail"}


def reasons(found):
    return {name: one.why.code for name, one in found.items() if one.why is not None}


def tanh_gelu(model):
    for block in model.blocks:
        block.act = nn.GELU(approximate="tanh")
    return model


def epsilon(model):
    for block in model.blocks:
        block.norm.eps = 1e-3
    return model


def one_weight(model):
    with torch.no_grad():
        model.blocks[1].up.weight[3, 4] *= 1.01
    return model


MISTAKES = [
    (tanh_gelu, {"blocks.0.act", "blocks.1.act"}),
    (epsilon, {"blocks.0.norm", "blocks.1.norm"}),
    (one_weight, {"blocks.1.up"}),
    (lambda model: model, set()),
]


@pytest.mark.parametrize(("mistake", "at"), MISTAKES)
def test_exactly_the_wrong_modules_are_accused(tmp_path, mistake, at):
    found = replayed(tmp_path, made(), mistake(made()))
    assert wrong(found) == at
    assert reasons(found) == {}


@pytest.mark.parametrize(("mistake", "at"), [MISTAKES[0], MISTAKES[1], MISTAKES[3]])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sixteen_bits_are_judged_with_weights_and_inputs_as_the_run_cast_them(tmp_path, mistake, at, dtype):
    found = replayed(tmp_path, made(), mistake(made()).to(getattr(torch, dtype)))
    assert wrong(found) == at
    assert {one.measure for name, one in found.items() if name.startswith("blocks.")} == {"flips"}


@pytest.mark.parametrize(("mistake", "at"), [MISTAKES[0], MISTAKES[3]])
def test_autocast_is_replayed_as_autocast(tmp_path, mistake, at):
    found = replayed(tmp_path, made(), mistake(made()), around=torch.autocast("cpu", dtype=torch.bfloat16))
    assert wrong(found) == at
    measures = {name: one.measure for name, one in found.items()}
    assert measures["blocks.0.up@0:output:0"] == "flips"
    assert measures["blocks.0.norm@0:output:0"] == "score"


def test_a_score_is_the_error_over_that_of_the_module_in_float32_for_the_left_s_inputs(tmp_path):
    reference, port = made(), tanh_gelu(made())
    found = replayed(tmp_path, reference, port)
    kept = {}
    port.blocks[1].up.register_forward_hook(lambda *_: kept.setdefault("in", _[2].detach().clone()))
    port.blocks[1].act.register_forward_hook(lambda *_: kept.setdefault("out", _[2].detach().clone()))
    port(IDS)
    exact = functional.gelu(kept["in"].double())
    error, own = kept["out"].double() - exact, functional.gelu(kept["in"]).double() - exact
    euclid = (error.norm() / own.norm()).item()
    largest = error.abs().max().item() / max(own.abs().max().item(), 2**-25 * exact.abs().max().item())
    assert found["blocks.1.act@0:output:0"].score == pytest.approx(max(euclid, largest), rel=1e-3)
    assert found["blocks.1.act@0:output:0"].limit == 64.0
    assert found["blocks.1.up@0:output:0"].limit == 16.0


# -- inputs and functions ---------------------------------------------------------------------------------------------


class Attend(nn.Module):
    """Attention in functions between layers; `mistake` is made there."""

    def __init__(self, mistake=""):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        self.mistake = mistake

    def forward(self, x):
        query, key, value = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        if self.mistake == "order":
            key, value = value, key
        scores = query @ key.mT * (1.0 if self.mistake == "scale" else 8**-0.5)
        scores = scores + torch.full_like(scores[0, 0], float("-inf")).triu(0 if self.mistake == "mask" else 1)
        made = scores.softmax(-2 if self.mistake == "axis" else -1).nan_to_num() @ value
        made = (made if self.mistake == "heads" else made.transpose(1, 2)).reshape(x.shape)
        return self.out(made) * (1.01 if self.mistake == "sum" else 1) + x


ATTENDED = torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(4))
BETWEEN = ["order", "scale", "mask", "axis", "heads"]


def attending(mistake=""):
    model = made(lambda: nn.Sequential(Attend(), Attend(), Attend(), nn.Linear(16, 4)))
    model[1].mistake = mistake
    return model


def attended(model):
    model(ATTENDED.to(model[3].weight.dtype))


@pytest.mark.parametrize("mistake", ["", *BETWEEN, "sum"])
@pytest.mark.parametrize(("level", "dtype"), [("module", "float32"), ("module", "bfloat16"), ("both", "bfloat16")])
def test_a_layer_that_gives_its_output_of_its_own_input_is_right_and_the_module_around_is_wrong(
    tmp_path, level, mistake, dtype
):
    port = attending(mistake).to(getattr(torch, dtype))
    found = replayed(tmp_path, attending(), port, attended, inputs=True, level=level)
    accused = {name: one for name, one in found.items() if one.outcome == "fail"}
    assert found["1.out@0:output:0"].outcome == "pass"
    if level == "module" or mistake in ("", "order", "heads"):
        assert {name.partition("@")[0] for name in accused} == ({"1"} if mistake else set())
    else:
        # What a function between both makes is a tensor of its own.
        assert {name.partition("@")[0].partition("/")[0] for name in accused} == {"1"}
    if mistake in BETWEEN and level == "module":
        (one,) = accused.values()
        assert (one.after, one.before) == (("1.qkv",), ("1.out",))


@pytest.mark.parametrize("mistake", ["", "scale", "axis", "sum"])
@pytest.mark.parametrize("inputs", [False, True])
def test_functions_are_replayed_each_with_its_own_inputs(tmp_path, mistake, inputs):
    found = replayed(tmp_path, attending(), attending(mistake), ATTENDED, inputs=inputs, level="operation")
    at = {"": set(), "scale": {"1/mul"}, "axis": {"1/softmax"}, "sum": {"1/mul"}}[mistake]
    assert wrong(found) == at
    assert {code for name, code in reasons(found).items() if ":output:" in name} == {"local_nonfinite"}


def test_the_command_records_the_functions_of_the_reference_where_the_left_has_them(tmp_path, msdump):
    (tmp_path / "build.py").write_text(
        "import torch\nfrom torch import nn\nclass Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__(); torch.manual_seed(0); self.a = nn.Linear(6, 6)\n"
        "    def forward(self, x):\n        return torch.softmax(self.a(x) * 2, -1)\n"
        "def build():\n    return Net(), torch.ones(2, 6)\n"
    )
    space = {}
    exec((tmp_path / "build.py").read_text(), space)
    model, given = space["build"]()
    with torch.no_grad(), Recorder(tmp_path).torch(model, directory=tmp_path / "left", level="operation"):
        model(given)
    ran = msdump("replay", "left", "--model", "build.py:build")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "0 wrong by themselves, 3 right" in ran.stdout


class Whole(nn.Module):
    """Whole numbers of floats: a grid, and the largest; `is_other` chooses the other way at each tie."""

    def __init__(self, is_other=False, wrong=""):
        super().__init__()
        self.grid, self.best, self.is_other, self.wrong = Grid(self), Best(self), is_other, wrong

    def forward(self, x):
        return self.grid(x), self.best(x)


class Grid(nn.Module):
    def __init__(self, owner):
        super().__init__()
        self.owner = [owner]

    def forward(self, x):
        steps = x / 0.1
        made = torch.round(steps)
        if self.owner[0].is_other:
            down = torch.floor(steps)
            made = torch.where((steps - down - 0.5).abs() < 1e-5, 2 * down + 1 - made, made)
        if self.owner[0].wrong == "grid":
            made[-1, 0] += 1
        return made.clamp(-128, 127).to(torch.int8)


class Best(nn.Module):
    def __init__(self, owner):
        super().__init__()
        self.owner = [owner]

    def forward(self, x):
        made = x.shape[-1] - 1 - x.flip(-1).argmax(-1) if self.owner[0].is_other else x.argmax(-1)
        if self.owner[0].wrong == "best":
            made[-1] = (made[-1] + 1) % x.shape[-1]
        return made


@pytest.mark.parametrize(("wrong_one", "seeds"), [("", 20), ("grid", 3), ("best", 3)])
def test_ties_of_whole_numbers_are_no_mistakes_and_one_step_elsewhere_is(tmp_path, wrong_one, seeds):
    for seed in range(seeds):
        x = torch.randn(20, 6, generator=torch.Generator().manual_seed(seed))
        x[:9] = (x[:9] * 20).round() / 10 + 0.05
        x[5:15, 4] = x[5:15, 1] = x[5:15].max(-1).values
        x[-1] = torch.tensor([0.22, -0.31, 1.5, 0.0, 0.77, 0.13])
        reference, port = Whole(), Whole(is_other=True, wrong=wrong_one)
        found = replayed(tmp_path / str(seed), reference, port, x)
        assert wrong(found) - {"Whole"} == ({wrong_one} if wrong_one else set()), seed


def test_a_function_that_runs_in_one_precision_alone_hides_nothing(tmp_path):
    def attend():
        return nn.Sequential(nn.Linear(8, 8), SelfAttention(), nn.Linear(8, 4))

    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    port = made(attend).eval()
    with torch.no_grad():
        port[1].attend.out_proj.weight[1] *= 1.5
    cast = torch.autocast("cpu", dtype=torch.float16)
    found = replayed(tmp_path, made(attend).eval(), port, x, cast, inputs=True, level="both")
    assert wrong(found) == {"1.attend"}


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attend(x, x, x, need_weights=False)[0]


# -- kinds of modules -------------------------------------------------------------------------------------------------


class Several(nn.Module):
    """Modules called several times, in-place ones, and outputs of every form."""

    def __init__(self, slope=0.0):
        super().__init__()
        self.body, self.act, self.pair = nn.Linear(6, 6), nn.ReLU(inplace=True), Pair()
        self.slope = slope

    def forward(self, x):
        hidden = self.act(self.body(x))
        hidden = self.act(self.body(hidden) * (1 + self.slope))
        out = self.pair(hidden)
        return {"first": out.first + out.rest[0]["x"], "rest": (hidden, None)}


@dataclasses.dataclass
class Both:
    first: object
    rest: tuple


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(6, 6), nn.LSTM(6, 6, batch_first=True)

    def forward(self, x):
        return Both(self.one(x), ({"x": self.two(x)[0]}, None))


def test_calls_of_one_module_are_told_apart_and_outputs_of_every_form_are_put_in(tmp_path):
    x = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(1))
    good = replayed(tmp_path / "good", made(Several), made(Several), x)
    assert wrong(good) == set() == set(reasons(good))
    assert {"body@0:output:0", "body@1:output:0", "pair.two@0:output:2"} <= set(good)
    port = made(Several)
    port.slope = 1e-3
    found = replayed(tmp_path / "wrong", made(Several), port, x)
    assert {name for name, one in found.items() if one.outcome == "fail"} == {"act@1:output:0"}


def test_a_weight_that_two_modules_share_accuses_the_module_that_took_another(tmp_path):
    port = made()
    port.head.weight = nn.Parameter(port.head.weight.detach() * 1.001)
    assert wrong(replayed(tmp_path, made(), port)) == {"head"}


def attention():
    return nn.Sequential(nn.Linear(8, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Linear(8, 4))


def test_leaves_whose_children_fire_no_hooks_are_judged_whole(tmp_path):
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))
    port = made(attention)
    with torch.no_grad():
        port[1].self_attn.out_proj.weight *= 1.01
    found = replayed(tmp_path, made(attention), port, x)
    names = {name.partition("@")[0] for name in found}
    assert "1.self_attn.out_proj" not in names
    assert wrong(found) == ({"1.self_attn"} if "1.self_attn" in names else {"1"})


def test_dropout_is_not_replayable_and_what_follows_is_judged(tmp_path):
    class Dropped(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.drop, self.b, self.c = nn.Linear(6, 6), nn.Dropout(0.5), nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x):
            return self.c(functional.dropout(self.b(self.drop(self.a(x))), 0.5, self.training))

    x = torch.randn(50, 6, generator=torch.Generator().manual_seed(1))
    found = replayed(tmp_path, made(Dropped, train=True), made(Dropped, train=True), x)
    assert reasons(found) == {"drop@0:output:0": "local_random", "c@0:output:0": "local_random"}
    assert {name for name, one in found.items() if one.outcome == "pass"} == {
        "a@0:output:0",
        "b@0:output:0",
        "Dropped@0:output:0",
    }


def test_batch_norm_in_training_is_computed_from_the_left_s_batch(tmp_path):
    def build():
        return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.BatchNorm2d(4))

    x = torch.randn(4, 3, 9, 9, generator=torch.Generator().manual_seed(1))
    port = made(build, train=True)
    port[4].eps = 1e-3
    assert wrong(replayed(tmp_path, made(build, train=True), port, x)) == {"4"}


def test_modules_on_one_side_only_widen_the_segment(tmp_path):
    port = tanh_gelu(made())
    found = replayed(tmp_path, made(), port, table={"deselect": ["*.act", "*.up"]})
    accused = {name: one for name, one in found.items() if one.outcome == "fail"}
    # What is left out of a comparison is put in all the same.
    assert not accused
    found = replayed(tmp_path / "less", made(), port, exclude=("*.act", "*.up"))
    accused = {name: one.segment for name, one in found.items() if one.outcome == "fail"}
    assert accused == {f"blocks.{n}.down@0:output:0": (f"blocks.{n}.act", f"blocks.{n}.up") for n in (0, 1)}


def test_a_wrong_shape_is_a_reason(tmp_path):
    port = made()
    port.blocks[0].norm.register_forward_hook(lambda *given: given[2][:, :6])
    for block in port.blocks:
        block.forward = lambda x, one=block: one.down(one.act(one.up(one.norm(x))))
    found = replayed(tmp_path, made(), port)
    assert reasons(found)["blocks.0.norm@0:output:0"] == "local_shape"
    assert reasons(found)["blocks.0.up@0:output:0"] == "local_shape"


def test_nan_of_the_left_is_wrong_where_it_begins_alone(tmp_path):
    port = made()
    port.blocks[0].up.register_forward_hook(lambda *given: given[2].index_fill(-1, torch.tensor([3]), torch.nan))
    found = replayed(tmp_path, made(), port)
    assert wrong(found) == {"blocks.0.up"}
    assert reasons(found)["blocks.0.down@0:output:0"] == "local_nonfinite"


def test_an_operation_without_a_float64_kernel_is_a_reason_and_the_run_goes_on(tmp_path):
    @torch.library.custom_op("msdump_test::single_only", mutates_args=())
    def single_only(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is torch.float64:
            raise NotImplementedError("'single_only' not implemented for 'Double'")
        return x * 2

    class Single(nn.Module):
        def forward(self, x):
            return torch.ops.msdump_test.single_only(x)

    def build():
        return nn.Sequential(nn.Linear(6, 6), Single(), nn.Linear(6, 6))

    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(1))
    found = replayed(tmp_path, made(build), made(build), x)
    assert reasons(found) == {"1@0:output:0": "local_single"}
    assert found["2@0:output:0"].outcome == "pass"


def test_precision_that_a_model_asks_for_itself_is_float64_here(tmp_path):
    class Asks(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x):
            scale = torch.arange(6, dtype=torch.float32).add(1) * torch.ones(6)
            return self.b(torch.exp(self.a(x).float() / scale))

    x = torch.randn(30, 6, generator=torch.Generator().manual_seed(1))
    found = replayed(tmp_path, made(Asks), made(Asks), x)
    assert wrong(found) == set() == set(reasons(found))


def test_inputs_weights_and_later_iterations_say_why_they_are_not_judged(tmp_path):
    with torch.no_grad():
        for side in ("left", "right"):
            with Recorder(tmp_path).torch(
                made(), directory=tmp_path / side, inputs=True, parameters=True, iterations=True
            ) as recording:
                for _ in range(2):
                    with recording.iteration():
                        recording.model(IDS)
    planned = planned_of(tmp_path, io="all")
    found = replay_plan(planned, reference_of(made(), IDS))
    codes = {"local_input", "local_weight", "local_elsewhere"}
    assert {one.why.code for one in found.values() if one.why} == codes
    assert sum(one.outcome == "pass" for one in found.values()) == 16


# -- gradients --------------------------------------------------------------------------------------------------------


def with_loss(model):
    functional.cross_entropy(model(IDS).flatten(0, 1), IDS.flatten()).backward()


def test_gradients_are_judged_backwards_each_from_the_left_s_own(tmp_path):
    found = replayed(tmp_path, made(), made(), with_loss, gradients=True)
    assert wrong(found) == set()
    judged = {name for name, one in found.items() if one.outcome == "pass"}
    assert "blocks.0.act/grad_output@0:output:0" in judged
    assert "blocks.0.up.weight/grad@0:output:0" in judged
    assert set(reasons(found).values()) == {"local_input"}


def test_a_loss_that_is_summed_accuses_where_its_gradient_comes_in_alone(tmp_path):
    def summed(model):
        functional.cross_entropy(model(IDS).flatten(0, 1), IDS.flatten(), reduction="sum").backward()

    reference = made()
    for side, given in (("right", with_loss), ("left", summed)):
        record(tmp_path / side, copy.deepcopy(reference), given, gradients=True)
    planned = planned_of(tmp_path)
    found = replay_plan(planned, reference_of(reference, with_loss))
    accused = {planned.pairing.pairs[n].right.key.op.label for n, one in found.items() if one.outcome == "fail"}
    assert accused <= {"Net/grad_output", "head/grad_output"}
    assert accused


def test_without_a_backward_pass_gradients_say_so(tmp_path):
    reference = made()
    for side in ("right", "left"):
        record(tmp_path / side, copy.deepcopy(reference), with_loss, gradients=True)
    planned = planned_of(tmp_path)
    found = replay_plan(planned, reference_of(reference, IDS))
    assert {one.why.code for one in found.values() if one.why} == {"local_no_gradient", "local_input"}


# -- steps of optimizers ----------------------------------------------------------------------------------------------


def small():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


BATCH = torch.randn(5, 6, generator=torch.Generator().manual_seed(3))


def train(model, optimizer, steps=2, around=nullcontext):
    for number in range(steps):
        with around():
            optimizer.zero_grad()
            functional.mse_loss(model(BATCH), torch.ones(5, 3) * (number + 1)).backward()
            optimizer.step()


def stepped(folder, optimizer, mistake=None, taken=None, **options):
    """Return what a replay says of two steps, by address and iteration; a mistake is a setting of the last layer."""

    def made_for(model, **more):
        return optimizer([{"params": [*model[0].parameters()]}, {"params": [*model[2].parameters()], **more}])

    for side in ("right", "left"):
        model = made(small, train=True)
        one = made_for(model, **(mistake or {} if side == "left" else {}))
        options = {"gradients": True, "iterations": True, **options}
        with Recorder(folder).torch(model, directory=folder / side, optimizer=one, **options) as recording:
            train(model, one, around=recording.iteration)
    planned = planned_of(folder)
    taken = taken or (lambda model: train(model, made_for(model)))
    found = replay_plan(planned, reference_of(made(small, train=True), taken))
    keys = [pair.right.key for pair in planned.pairing.pairs]
    return {
        f"{keys[number].op.label}#{keys[number].op.at.iteration}": one
        for number, one in found.items()
        if keys[number].op.op_type == "Optimizer"
    }


def sgd(**options):
    return lambda groups: torch.optim.SGD(groups, lr=0.3, **options)


STEPS = [
    (sgd(), {"lr": 0.31}, {"updated#0", "updated#1"}),
    (sgd(momentum=0.9), {"momentum": 0.8}, {"momentum_buffer#1", "updated#1"}),
    (
        sgd(momentum=0.9, weight_decay=0.1, nesterov=True),
        {"weight_decay": 0.2},
        {"momentum_buffer#0", "momentum_buffer#1", "updated#0", "updated#1"},
    ),
    (lambda groups: torch.optim.Adam(groups, lr=0.01), {"eps": 1e-3}, {"updated#0", "updated#1"}),
    (
        lambda groups: torch.optim.AdamW(groups, lr=0.01, weight_decay=0.1),
        {"betas": (0.9, 0.99)},
        # In the first step the correction of the bias hides another beta from the parameter itself.
        {"exp_avg_sq#0", "exp_avg_sq#1", "updated#1"},
    ),
    (lambda groups: torch.optim.AdamW(groups, lr=0.01), {"weight_decay": 0.3}, {"updated#0", "updated#1"}),
]


@pytest.mark.parametrize(("optimizer", "mistake", "at"), STEPS)
def test_steps_are_judged_from_what_the_left_had_before_each(tmp_path, optimizer, mistake, at):
    good = stepped(tmp_path / "good", optimizer)
    assert {one.outcome for one in good.values()} == {"pass"}
    assert len(good) >= 8
    found = stepped(tmp_path / "wrong", optimizer, mistake)
    accused = {name for name, one in found.items() if one.outcome == "fail"}
    # The parameters of the first layer were trained as the reference's, and are innocent.
    assert accused == {f"2.{name}/{what}" for name in ("weight", "bias") for what in at}
    assert not reasons(found)


def test_steps_that_the_reference_does_not_take_say_so(tmp_path):
    optimizer = sgd(momentum=0.9)
    found = stepped(tmp_path, optimizer, taken=lambda model: train(model, optimizer([*model.parameters()]), steps=1))
    passes = {name for name, one in found.items() if one.outcome == "pass"}
    assert passes == {name for name in found if name.endswith("#0")}
    assert set(reasons(found).values()) == {"local_optimizer"}


def test_steps_whose_gradients_were_not_recorded_say_so(tmp_path):
    found = stepped(tmp_path, sgd(), gradients=False)
    assert set(reasons(found).values()) == {"local_before_step"}
    assert len(reasons(found)) == len(found)


def test_an_optimizer_that_goes_on_from_earlier_steps_says_so(tmp_path):
    def goes_on(model):
        one = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
        for parameter in model.parameters():
            one.state[parameter]["momentum_buffer"] = torch.ones_like(parameter)
        train(model, one)

    found = stepped(tmp_path, sgd(momentum=0.9), taken=goes_on)
    assert set(reasons(found).values()) == {"local_before_step"}
    assert len(reasons(found)) == len(found)


def test_without_a_recording_of_the_reference_its_steps_are_judged_and_it_stays_as_it_is(tmp_path):
    def run(model):
        train(model, torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9), steps=1)

    port = made(small, train=True)
    optimizer = torch.optim.SGD(port.parameters(), lr=0.2, momentum=0.9)
    with Recorder(tmp_path).torch(port, directory=tmp_path / "left", gradients=True, optimizer=optimizer):
        train(port, optimizer, steps=1)
    reference = made(small, train=True)
    before = copy.deepcopy(reference.state_dict())
    with pytest.raises(AssertionError, match=r"wrong by themselves: 0\.weight/updated, 0\.bias/updated"):
        assert_replay(reference, tmp_path / "left", run)
    for name, one in reference.state_dict().items():
        torch.testing.assert_close(one, before[name], rtol=0, atol=0)


# -- suggestions ------------------------------------------------------------------------------------------------------


class Port(nn.Module):
    """Net under other names, which computes what attention is given in another order."""

    def __init__(self, reference, scale=1.0):
        super().__init__()
        self.tokens, self.heads, self.out = reference.embed, nn.ModuleList(), reference.head
        self.heads.extend([reference.value, reference.key, reference.query])
        self.parts = nn.ModuleList(nn.ModuleList([one.norm, one.up, one.act, one.down]) for one in reference.blocks)
        self.scale = scale

    def forward(self, ids):
        x = self.tokens(ids)
        value, key, query = (head(x) for head in self.heads)
        x = x + torch.softmax(query @ key.mT / 4, -1) @ value
        for norm, up, act, down in self.parts:
            x = x + down(act(up(norm(x))))
        return self.out(x)


PARTNERS = {
    "embed": "tokens",
    "query": "heads.2",
    "key": "heads.1",
    "value": "heads.0",
    **{
        f"blocks.{number}.{name}": f"parts.{number}.{place}"
        for number in range(2)
        for place, name in enumerate(("norm", "up", "act", "down"))
    },
    "head": "out",
}


def wrong_from_the_first(model):
    with torch.no_grad():
        model.embed.weight.mul_(torch.linspace(0.6, 1.7, 16))
        model.key.bias.add_(0.3)
    model.blocks[0].act = nn.ReLU()
    return model


def suggested(folder, **more):
    found = suggest_with(reference_of(made(), IDS), planned_of(folder, pair_by=["map"], **more))
    return found, clear_in(found)


def clear_in(found):
    """Left operator by right one of what is suggested without a doubt."""
    return {
        found.right[one.right].key.op.label: found.left[one.fits[0].left].key.op.label
        for one in found.suggestions
        if one.is_clear
    }


@pytest.fixture
def sides(tmp_path):
    """A reference, and a port of it that is wrong from its first layer."""
    with torch.no_grad():
        record(tmp_path / "right", made(), IDS)
        record(tmp_path / "left", Port(wrong_from_the_first(made())), IDS)
    return tmp_path


def test_a_port_that_is_wrong_from_its_first_layer_finds_its_partners(sides):
    found, clear = suggested(sides)
    assert {name: left for name, left in clear.items() if name in PARTNERS} == PARTNERS
    assert {one.how for one in found.suggestions} == {"replay"}
    by_name = {found.right[one.right].key.op.label: one for one in found.suggestions}
    # What is right fits to rounding although all before it is wrong.
    assert by_name["query"].fits[0].how.apart < 1e-6
    assert by_name["blocks.1.up"].fits[0].how.apart < 1e-6
    assert by_name["key"].fits[0].how.apart > 1e-3
    partner = found.partner(by_name["query"], by_name["query"].fits[0], "left")
    assert partner.why.startswith("the reference makes it of the left's own values, same shape; values differ by ")


def test_without_a_reference_the_order_of_such_a_port_misleads(sides):
    found = suggest_partners(planned_of(sides, pair_by=["map"]))
    assert clear_in(found).get("query") != PARTNERS["query"]


def test_what_has_a_partner_keeps_it(sides):
    _, clear = suggested(sides, map=[{"left": "heads.0", "right": "query"}])
    assert "query" not in clear
    assert "heads.0" not in clear.values()
    assert clear["key"] == "heads.1"


# -- faces ------------------------------------------------------------------------------------------------------------

REFERENCE = """
    import sys, torch
    sys.path.insert(0, {tests!r})
    from test_torch_replay import IDS, Net

    def build():
        torch.manual_seed(2)
        return Net().eval()

    def with_inputs():
        return build(), IDS

    def retrained():
        model = build()
        model.blocks[1].norm.weight.data[0] += 1e-3
        return model, IDS

    def raises():
        raise ValueError("no weights")

    def wrong_inputs():
        return build(), (IDS, IDS)

    number = 3
"""


@pytest.fixture
def folder(tmp_path):
    from pathlib import Path

    (tmp_path / "reference.py").write_text(textwrap.dedent(REFERENCE.format(tests=str(Path(__file__).parent))))
    with torch.no_grad():
        record(tmp_path / "right", made(), IDS, inputs=True)
        record(tmp_path / "left", tanh_gelu(made()), IDS)
    return tmp_path


def pytest_in(folder, *words):
    command = [sys.executable, "-m", "pytest", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def test_the_gate_fails_what_is_wrong_by_itself_though_it_is_within_its_limits(folder, msdump):
    plain = msdump("compare", "left", "right")
    assert plain.returncode == 0
    ran = pytest_in(folder, "--msdump-left=left", "--msdump-right=right", "--msdump-replay=reference.py:build")
    assert ran.returncode == 1
    assert "2 failed, 15 passed" in ran.stdout
    assert "wrong by themselves: blocks.0.act, blocks.1.act" in ran.stdout
    results = read_json(folder / "msdump-report" / "results.json")
    assert f"ran user code: {folder / 'reference.py'}:build" in results["notes"]
    local = {one["left"]["address"]: one["local"] for one in results["tensors"]}
    assert local["blocks.0.act:output:0"]["outcome"] == "fail"
    assert local["blocks.0.act:output:0"]["sentence"].startswith("wrong by itself: ")
    roles = {one["left"]["address"]: one.get("role") for one in results["tensors"]}
    causes = [name for name, role in roles.items() if role == "cause"]
    assert causes == ["blocks.0.act:output:0", "blocks.1.act:output:0"]
    again = msdump("check", "msdump-report/results.json")
    assert again.returncode == 1


@pytest.mark.usefixtures("folder")
def test_the_command_needs_no_recording_of_the_reference(msdump):
    ran = msdump("replay", "left", "--model", "reference.py:with_inputs")
    assert ran.returncode == 1
    assert "replay: 2 wrong by themselves, 14 right, 0 not replayable" in ran.stdout
    assert "is this rounding?" not in ran.stdout


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("reference.py", "name a file and a function of it"),
        ("nothing.py:build", "there is no such file"),
        ("reference.py:nothing", "has no function nothing"),
        ("reference.py:number", "has no function number"),
        ("reference.py:raises", "raises raised ValueError: no weights"),
        ("reference.py:wrong_inputs", "the reference model raised TypeError"),
        ("reference.py:build", "inputs"),
    ],
)
def test_what_cannot_be_replayed_is_one_line_and_exit_code_4(msdump, model, text):
    ran = msdump("replay", "left", "--model", model)
    assert ran.returncode == 4
    assert text in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1


@pytest.mark.usefixtures("folder")
def test_a_model_with_other_weights_than_the_recorded_one_is_refused(msdump):
    ran = msdump("compare", "left", "right", "--replay", "reference.py:retrained")
    assert ran.returncode == 4
    assert "has other weights than the model that the right side was recorded of: blocks.1.norm.weight;" in ran.stderr


def test_match_suggests_by_replay_and_the_suite_runs(folder, msdump):
    with torch.no_grad():
        record(folder / "port", Port(wrong_from_the_first(made())), IDS)
    words = ("match", "port", "right", "--pair-by", "map", "--suggest", "--model", "reference.py:build")
    ran = msdump(*words, "-o", "port.toml")
    assert ran.returncode == 0, ran.stderr
    text = (folder / "port.toml").read_text()
    assert 'left = "heads.2:output:0"\nright = "query:output:0"' in text
    assert "# the reference makes it of the left's own values, same shape; values differ by" in text
    assert msdump("match", "--config", "port.toml").returncode == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("left", "right", "--model", "reference.py:build"), "give --suggest as well"),
        (
            ("left", "left2", "--pair-by", "map", "--suggest", "--model", "reference.py:with_inputs"),
            "names no module that",
        ),
    ],
)
def test_what_cannot_suggest_is_one_line_and_exit_code_4(folder, msdump, words, text):
    with torch.no_grad():
        record(folder / "left2", nn.Sequential(nn.Embedding(20, 4), nn.Linear(4, 4), nn.Linear(4, 4)), IDS)
    ran = msdump("match", *words)
    assert ran.returncode == 4, ran.stdout
    assert text in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1


def test_suggestions_of_a_gate_are_by_replay_where_it_replays(folder):
    with torch.no_grad():
        record(folder / "port", Port(wrong_from_the_first(made())), IDS)
    sides = ("--msdump-left=port", "--msdump-right=right", "--msdump-pair-by=map")
    ran = pytest_in(folder, *sides, "--msdump-suggest", "--msdump-replay=reference.py:build")
    results = read_json(folder / "msdump-report" / "results.json")
    found = {
        one["address"]: [(partner["address"], partner["by"]) for partner in one["suggestions"]]
        for one in results["unmatched"]
        if one["side"] == "right"
    }
    assert found["query:output:0"] == [("heads.2:output:0", "replay")], ran.stdout


def test_a_suite_file_cannot_name_code(folder, msdump):
    (folder / "msdump.toml").write_text('[msdump]\nleft = "left"\nright = "right"\nreplay = "reference.py:build"\n')
    ran = msdump("compare")
    assert ran.returncode == 4
    assert "unknown key 'replay'" in ran.stderr


def test_a_test_can_replay(tmp_path):
    with torch.no_grad():
        record(tmp_path / "good", made(), IDS)
        record(tmp_path / "wrong", tanh_gelu(made()), IDS)
    report = assert_replay(made(), tmp_path / "good", IDS)
    assert all(one.local.outcome == "pass" for one in report.records)
    with pytest.raises(AssertionError, match=r"wrong by themselves: blocks\.0\.act, blocks\.1\.act"):
        assert_replay(made(), tmp_path / "wrong", IDS)
    with pytest.raises(ConfigError, match=r"only models of PyTorch"):
        assert_replay(np.zeros(3), tmp_path / "wrong", IDS)


class Rows(nn.Module):
    """A linear layer of what is not contiguous: of it PyTorch rounds the product, and then the sum."""

    def __init__(self, kind):
        super().__init__()
        rest = {"batch_first": True} if kind in (nn.LSTM, nn.GRU) else {}
        self.inner = kind(16, 16, **rest)
        self.head = nn.Linear(6 if kind is nn.Linear else 16, 8)

    def forward(self, x):
        found = self.inner(x)
        return self.head(Turn.apply(found) if isinstance(self.inner, nn.Linear) else found[0])


class Turn:
    @staticmethod
    def apply(x):
        return x.transpose(1, 2)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.Linear])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_tensor_is_put_in_with_the_strides_of_the_one_it_replaces(tmp_path, kind, dtype):
    x = torch.randn(4, 6, 16, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        record(tmp_path / "left", made(lambda: Rows(kind)).to(dtype), x.to(dtype), inputs=True)
        assert_replay(made(lambda: Rows(kind)), tmp_path / "left", x)
        for number, module in enumerate(("inner", "head")):
            port = made(lambda: Rows(kind)).to(dtype)

            def fault(_, __, found):
                tensor = found if isinstance(found, torch.Tensor) else found[0]
                tensor[..., 3] *= 1.1

            getattr(port, module).register_forward_hook(fault)
            record(tmp_path / f"wrong{number}", port, x.to(dtype), inputs=True)
            with pytest.raises(AssertionError, match=f"wrong by themselves: {module}"):
                assert_replay(made(lambda: Rows(kind)), tmp_path / f"wrong{number}", x)


DAMAGES = {
    "nan": (lambda array: array * np.nan, "wrong by themselves: up, Block"),
    "inf": (lambda array: array * 0 + np.inf, "wrong by themselves: up, Block"),
    "float64": (lambda array: array.astype("f8") * 5, "wrong by themselves: up"),
    "shape": (lambda array: array[:-1], "1 tensor damaged: up: "),
    "empty": (lambda array: array[:0], "1 tensor damaged: up: "),
    "complex": (lambda array: array.astype("c8"), "1 tensor damaged: up: the left stores complex64"),
    "cut": (None, "1 tensor damaged: up: "),
    "missing": ("up down act Block", "4 operators of the reference not judged: up, act, down, Block"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_missing_tensor_fails_in_a_test(tmp_path, damage):
    change, said = DAMAGES[damage]
    x = torch.randn(5, 16, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        record(tmp_path / "left", made(Block), x, inputs=True)
    manifest = tmp_path / "left" / "msdump.json"
    entry = json.loads(manifest.read_text())
    files = {one["op"]: tmp_path / "left" / name for name, one in entry["tensors"].items() if "io" not in one}
    assert_replay(made(Block), tmp_path / "left", x)
    if change is None:
        files["up"].write_bytes(files["up"].read_bytes()[:-9])
    elif isinstance(change, str):
        gone = {files[name].name for name in change.split()}
        entry["tensors"] = {name: one for name, one in entry["tensors"].items() if name not in gone}
        manifest.write_text(json.dumps(entry))
        for name in gone:
            (tmp_path / "left" / name).unlink()
    else:
        np.save(files["up"], change(np.load(files["up"])))
    with pytest.raises(AssertionError) as raised:
        assert_replay(made(Block), tmp_path / "left", x)
    text = " ".join(str(raised.value).split())
    assert said.split(", Block")[0] in text
    if damage == "missing":
        assert "the replay judged 1 of 5 operators that it can" in text
        assert_replay(made(Block), tmp_path / "left", x, min_replayed=0.1)


DTYPES = []


class Large(nn.Module):
    """Modules that read weights in ways of their own; says in which precision weights are while it runs."""

    def __init__(self):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(20, 16), nn.LSTM(16, 16, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.mask, self.head = nn.Parameter(torch.randn(16)), nn.Linear(16, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.encoder(self.rnn(self.embed(ids))[0])
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x[:, 0] = self.mask
        DTYPES.append({name: one.dtype for name, one in self.named_parameters()})
        return functional.linear(self.head(x), self.embed.weight.mT)


@pytest.mark.parametrize("scale", [1.0, 1.001])
def test_of_a_model_that_is_called_alone_one_module_is_in_float64_at_a_time(tmp_path, scale):
    port = made(Large)
    with torch.no_grad():
        port.attention.out_proj.weight.mul_(scale)
    found = replayed(tmp_path, made(Large), port)
    assert wrong(found) == ({"attention"} if scale > 1 else set())
    assert reasons(found) == {}
    assert {name for name, dtype in DTYPES.pop().items() if dtype == torch.float64} == {"mask"}
