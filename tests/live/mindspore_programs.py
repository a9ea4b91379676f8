"""Networks that tests/live/test_mindspore_recording.py runs under MindSpore's interpreter."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from pytest_msdump import assert_close
from pytest_msdump.capabilities.frameworks.mindspore import CellRecording, array_of
from pytest_msdump.capabilities.record.sketching import decoded_blocks
from pytest_msdump.capabilities.statistics.count_sketch import sketch_blocks
from pytest_msdump.core.dtypes.arrays import array_to_save
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.record import Perturbation, Recorder

X = Tensor(np.linspace(-1, 1, 10).reshape(2, 5).astype(np.float32))


class Inner(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 4, weight_init="normal", bias_init="ones")

    def construct(self, x, scale=1.0):
        y = self.fc(x) * scale
        return {"first": y, "rest": (y + x, [y * y])}


class Net(nn.Cell):
    """A cell that is called twice, a keyword, nested outputs, an in-place operation on what a cell gave back."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Dense(5, 4)
        self.inner = Inner()
        self.last = nn.SequentialCell(nn.Dense(4, 2), nn.ReLU())

    def construct(self, x):
        hidden = self.conv1(x)
        found = self.inner(hidden, scale=2.0)
        again = self.inner(found["rest"][0])
        out = self.last(again["first"] + found["rest"][1][0])
        return out + 1.0


class Gives(nn.Cell):
    """Gives back what it holds."""

    def __init__(self, value) -> None:
        super().__init__()
        self.value = value

    def construct(self, _):
        return self.value


class InPlace(nn.Cell):
    """Changes what one of its cells gave back."""

    def __init__(self) -> None:
        super().__init__()
        self.held = Gives(Parameter(X + 0.0, name="value"))

    def construct(self, x):
        held = self.held(x)
        ops.assign_add(held, Tensor(np.full((2, 5), 100, np.float32)))
        return held


class Overwrites(nn.Cell):
    """Changes what its cells have just given back, while operations before still run."""

    def __init__(self) -> None:
        super().__init__()
        self.slow, self.held, self.after = (nn.ReLU() for _ in range(3))
        self.ways = {
            "indexed": lambda held, other: held.__setitem__(slice(None), other),
            "copy_": lambda held, other: held.copy_(other),
            "assign": ops.assign,
            "assign_value": lambda held, other: held.assign_value(other),
        }

    def construct(self, x):
        for change in self.ways.values():
            slow = self.slow(x @ x @ x)
            held = self.held(x[:64] * 2.0)
            change(held, x[64:128] * 3.0)
            self.after(held)
        return slow


class Factor(nn.Cell):
    """Fails on a matrix that is not positive definite, which MindSpore says later than it is called."""

    def construct(self, x):
        return ops.cholesky(x)


class Negates(nn.Cell):
    def construct(self, x):
        return -x


class Rounds(nn.Cell):
    def construct(self, x):
        return x.astype(ms.bfloat16)


class Turns(nn.Cell):
    def construct(self, x):
        return x.T


def trained(net):
    def loss(x):
        return net(x).sum()

    value, gradients = ms.value_and_grad(loss, None, net.trainable_params())(X)
    return [value, *gradients]


def save(path, arrays) -> None:
    np.savez(path, **{name: array.asnumpy() for name, array in arrays.items()})


def cells(folder: Path) -> None:
    net = Net()
    plain = trained(net)
    with Recorder(folder).mindspore(net, inputs=True, gradients=True, parameters=True) as recording:
        recorded = trained(net)
        recording.parameter_gradients(recorded[1:])
    after = trained(net)
    for before, during, later in zip(plain, recorded, after, strict=True):
        assert before.asnumpy().tobytes() == during.asnumpy().tobytes() == later.asnumpy().tobytes()
    for cell in (net, *net.cells()):
        assert not any((cell._forward_hook, cell._forward_pre_hook, cell._backward_hook))
    hidden = net.conv1(X)
    found = net.inner(hidden, scale=2.0)
    values = {"conv1": hidden, "first": found["first"], "rest0": found["rest"][0], "rest1": found["rest"][1][0]}
    again = net.inner(found["rest"][0])
    values |= {"last": net.last(again["first"] + found["rest"][1][0]), "again": again["first"]}
    values |= {f"grad {held.name}": gradient for held, gradient in zip(net.trainable_params(), plain[1:], strict=True)}
    values |= {f"held {held.name}": held for held in net.get_parameters()}
    grad_hidden = ms.grad(lambda hidden: _tail(net, hidden).sum())(hidden)
    save(folder / "expected.npz", {**values, "grad hidden": grad_hidden})


def _tail(net, hidden):
    found = net.inner(hidden, scale=2.0)
    again = net.inner(found["rest"][0])
    return net.last(again["first"] + found["rest"][1][0]) + 1.0


class Block(nn.Cell):
    """One activation that is called twice, and an addition that is no cell."""

    def __init__(self):
        super().__init__()
        self.a, self.act, self.b = nn.Dense(4, 4), nn.ReLU(), nn.Dense(4, 4)

    def construct(self, x):
        return self.act(self.b(self.act(self.a(x))) + x)


def edges(folder: Path) -> None:
    net = nn.SequentialCell(nn.Dense(4, 4), Block(), nn.Dense(4, 2))
    with Recorder(folder).mindspore(net):
        net(ms.Tensor(np.ones((2, 4), np.float32)))


def half(folder: Path) -> None:
    """Training through bfloat16, which is recorded through another road than types of numpy's."""
    net = nn.SequentialCell(nn.Dense(5, 4), Rounds(), Turns())

    def step():
        def loss(x):
            return (net(x).astype(ms.float32) * 3.0).sum()

        value, gradients = ms.value_and_grad(loss, None, net.trainable_params())(X)
        return [value, *gradients]

    plain = step()
    with Recorder(folder).mindspore(net, inputs=True, gradients=True):
        recorded = step()
    for before, during in zip(plain, recorded, strict=True):
        assert before.asnumpy().tobytes() == during.asnumpy().tobytes()
    save(folder / "expected.npz", {"out": net(X).astype(ms.float32)})


def perturbed(folder: Path) -> None:
    """Weights of two types, in a run that fails as well; the gradient of what was given."""
    net = nn.SequentialCell(nn.Dense(4, 4), nn.BatchNorm1d(4))
    net.set_train(False)
    held = Parameter(ms.Tensor(np.linspace(1, 2, 64, dtype=np.float32)).astype(ms.bfloat16), name="held")
    net.insert_param_to_cell("held", held)
    before = {one.name: array_of(one) for one in net.get_parameters()}
    before = {name: deepcopy(one) for name, one in before.items()}
    x = ms.Tensor(np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4))
    with Recorder(folder).mindspore(net, directory=folder / "plain"):
        net(x)
    perturb = Perturbation(3, 2.0**-9)
    with Recorder(folder).mindspore(net, directory=folder / "noisy", perturb=perturb, inputs=True, parameters=True):
        gradient = ms.grad(lambda given: net(given).sum())(x)
    with suppress(ZeroDivisionError), Recorder(folder).mindspore(net, directory=folder / "failed", perturb=perturb):
        raise ZeroDivisionError
    for one in net.get_parameters():
        old, new = (getattr(array, "data", array) for array in (before[one.name], array_of(one)))
        assert np.asarray(old).tobytes() == np.asarray(new).tobytes(), one.name
    with Recorder(folder).mindspore(net, directory=folder / "after"):
        net(x)
    weights = {one.name: one for one in net.get_parameters() if one.name != "held"}
    save(folder / "expected.npz", {"x": x, "gradient": gradient, **weights})


def later(folder: Path) -> None:
    net = InPlace()
    with Recorder(folder).mindspore(net):
        net(X)
    save(folder / "expected.npz", {"before": X, "after": net.held.value})


def overwritten(folder: Path) -> None:
    net, x = Overwrites(), Tensor(np.random.default_rng(0).random((1000, 1000), np.float32))
    with Recorder(folder).mindspore(net) as recording:
        net(x)
    assert recording._waiting == []
    # 4 bytes of a small tensor wait, 64 MiB do not.
    small, large = Gives(Tensor(np.zeros(1, np.float32))), Gives(Tensor(np.zeros(2**24, np.float32)))
    with Recorder(folder).mindspore(nn.SequentialCell(small, large), directory=folder / "large") as recording:
        small(X)
        assert (len(recording._waiting), recording._bytes) == (1, 4)
        large(X)
        assert (len(recording._waiting), recording._bytes) == (0, 0)
    save(folder / "expected.npz", {"held": x[:64] * 2.0, "after": x[64:128] * 3.0})
    (folder / "ways.json").write_text(json.dumps(len(net.ways)))


def failing(folder: Path) -> None:
    """An operation that fails after it was called, a conversion that fails, and a program that raises."""
    matrix = Tensor(np.diag([4.0, -4.0]).astype(np.float32))
    net, said = nn.SequentialCell(nn.ReLU(), Negates(), Factor()), {}

    class Unreadable(CellRecording):
        def array_of(self, tensor):
            if (tensor.asnumpy() < 0).any():
                raise ConfigError("it has a negative number")
            return super().array_of(tensor)

    for name, kind in {"operation": CellRecording, "conversion": Unreadable, "program": CellRecording}.items():
        recording = kind(net, folder / name, iterations=True)
        error = None
        try:
            with recording:
                with recording.iteration():
                    net[:2](matrix) if name != "operation" else net(matrix)
                    if name == "program":
                        raise ValueError("the loss is NaN")
                said[f"{name} went on"] = "after its iteration"
        except (ConfigError, RuntimeError, ValueError) as raised:
            error = f"{type(raised).__name__}: {raised}".partition("\n")[0]
        said[name] = error
        assert recording._waiting == []
    (folder / "said.json").write_text(json.dumps(said))


def iterations(folder: Path) -> None:
    net = Net()
    with Recorder(folder).mindspore(net, iterations=True, modules="conv1") as recording:
        for scale in (1.0, 2.0):
            with recording.iteration():
                net(X * scale)
        net(X * 3.0)
    save(folder / "expected.npz", {"0": net.conv1(X), "1": net.conv1(X * 2.0)})


def types(folder: Path) -> None:
    rng = np.random.default_rng(0)
    names = "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
    stored, expected = {}, {}
    for name in names.split():
        kind = np.dtype(name)
        raw = rng.integers(0, 256, (3, 2 * kind.itemsize), dtype=np.uint8)
        array = (raw[:, :2] % 2).astype(bool) if name == "bool_" else raw.view(kind)
        stored[name], expected[name] = Tensor(array), array
    for name, bits in {"bfloat16": 16, "float8_e4m3fn": 8, "float8_e5m2": 8, "hifloat8": 8}.items():
        array = np.arange(2**bits, dtype=f"u{bits // 8}").reshape(-1, 32)
        stored[name] = Tensor(array).view(getattr(ms, name))
        expected[name] = array
        # In another order in memory than in their axes.
        stored[f"{name} turned"] = Tensor(np.ascontiguousarray(array.T)).T.view(getattr(ms, name))
        expected[f"{name} turned"] = array
    stored["qint4x2"], expected["qint4x2"] = (
        Tensor(np.arange(256, dtype=np.uint8)).view(ms.qint4x2),
        np.arange(256, dtype=np.uint8),
    )
    stored["float32 turned"], expected["float32 turned"] = stored["float32"].T, expected["float32"].T
    stored["bfloat16 alone"], expected["bfloat16 alone"] = Tensor(1.5, ms.bfloat16), np.array(0x3FC0, np.uint16)
    stored["float32 empty"], expected["float32 empty"] = Tensor(np.zeros((0, 3), "f4")), np.zeros((0, 3), "f4")
    # What a number that stands between two copies would lose.
    for name, bits in {
        "float16 all": np.arange(2**16, dtype=np.uint16),
        "float32 NaN": np.array([0x7F800001, 0xFFC12345, 0x80000000, 1], np.uint32),
        "float64 NaN": np.array([0x7FF0000000000001, 0xFFF8123456789ABC, 1 << 63, 1], np.uint64),
        "complex64 NaN": np.array([0x7F800001, 0x80000000, 1, 0xFFC12345], np.uint32),
        "int64 large": np.array([2**53 + 1, 2**63 - 1, 2**63 + 1], np.uint64),
    }.items():
        expected[name] = bits.view(name.partition(" ")[0])
        stored[name] = Tensor(expected[name])
    for name, tensor in stored.items():
        cell = Gives(tensor)
        with Recorder(folder).mindspore(cell, directory=folder / name):
            cell(X)
    with Recorder(folder).writer(directory=folder / "written") as writer:
        for name in (*names.split(), "bfloat16"):
            writer.write(name, stored[name])
    np.savez(folder / "expected.npz", **expected)
    noise = rng.standard_normal(40_000) * 40
    for name in names.split():
        check_sketch((abs(noise) if name.startswith("u") else noise).astype(name))
    check_sketch((noise.astype("float32").view("<u4") & np.uint32(0xFFFF0000)).view("<f4"), ms.bfloat16)
    # Eighths below 1 have no more than 3 significant bits, so bfloat16 holds them.
    halves = (np.arange(-6, 6, dtype="float32") / 8).reshape(3, 4)
    assert_close(Tensor(halves, ms.bfloat16), halves)
    assert_close(Parameter(Tensor(halves)), halves)


def check_sketch(values: np.ndarray, kind=None) -> None:
    """The sketch of a tensor is that of the same numbers in an array of numpy, in other blocks."""
    blocks, dtype = decoded_blocks(*array_to_save(array_of(Tensor(values, kind))))
    statistics, sketch = sketch_blocks(blocks, dtype)
    expected, right = sketch_blocks(np.array_split(values, 7), values.dtype.name)
    assert dtype == ("bfloat16" if kind else values.dtype.name)
    assert np.abs(sketch.buckets - right.buckets).max() <= 1e-12 * right.norm, dtype
    assert np.isclose(np.sqrt(np.square(np.abs(values.astype("c16"))).sum()), sketch.norm, rtol=1e-12), dtype
    assert all(np.isclose(statistics[key], expected[key], rtol=1e-12) for key in expected), dtype


def refused(folder: Path) -> None:
    said = {}

    class Compiled(Net):
        @ms.jit
        def construct(self, x):
            return self.last(self.conv1(x))

    for name, attempt in {
        "graph": _in_graph_mode,
        "jit": lambda recorder: recorder.mindspore(Compiled()),
        "called by jit": _called_by_jit,
        "no gradient": _no_gradient,
        "nothing": lambda recorder: recorder.mindspore(Net(), modules="conv9"),
    }.items():
        said[name] = _error_of(attempt, Recorder(folder))
    (folder / "said.json").write_text(json.dumps(said))


def _error_of(attempt, recorder) -> str:
    try:
        attempt(recorder)
    except ConfigError as error:
        return str(error)
    return ""


def _in_graph_mode(recorder):
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        recorder.mindspore(Net())
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def _called_by_jit(recorder):
    net = Net()

    @ms.jit
    def run(x):
        return net.last(net.conv1(x))

    with recorder.mindspore(net):
        run(X)


def _no_gradient(recorder):
    net = Net()
    with recorder.mindspore(net, gradients=True):
        net(X)


def mixed(folder: Path) -> None:
    """Records networks under levels of mixed precision; what the CPU cannot compute in bfloat16 is not computed."""
    # O1 writes the network anew, into a folder that it makes here.
    os.chdir(folder)
    for level in ("O0", "O1", "O2", "O3"):
        net = ms.amp.auto_mixed_precision(Inner(), level)
        with Recorder(folder).mindspore(net, directory=folder / level):
            net(X[:, :4])
    for level in ("O3", "auto"):
        net = ms.amp.auto_mixed_precision(nn.SequentialCell(nn.Identity()), level, ms.bfloat16)
        with Recorder(folder).mindspore(net, directory=folder / f"{level} bfloat16"):
            net(X)


def graph(path: str, scale: float = 1.0) -> None:
    """Runs in graph mode; saves its result."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_seed(1)
    dense = nn.Dense(4, 3)
    dense.weight = Parameter(Tensor(np.arange(12).reshape(3, 4).astype(np.float32)), name="weight")
    x = Tensor((np.arange(8).reshape(2, 4) * scale).astype(np.float32))
    np.save(path, nn.SequentialCell(dense, nn.ReLU())(x).asnumpy())


if __name__ == "__main__":
    ms.set_context(mode=ms.PYNATIVE_MODE)
    globals()[sys.argv[1]](Path(sys.argv[2]))
