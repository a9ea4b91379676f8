"""What differs by default between PyTorch and MindSpore: each row of the page, run in both."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from differences import SAME, SECTIONS, Difference

pytestmark = [
    pytest.mark.live,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(
        not (find_spec("torch") and find_spec("mindspore")),
        reason="PyTorch and MindSpore are not installed side by side",
    ),
]

DRAWN = np.random.default_rng(3)
ARRAYS = {
    "x": DRAWN.standard_normal((2, 3, 6, 6)).astype("f4"),
    "m": DRAWN.standard_normal((4, 5)).astype("f4"),
    "s": DRAWN.standard_normal((5, 2, 4)).astype("f4"),
    "small": 1e-3 * DRAWN.standard_normal((4, 5)).astype("f4"),
    "volume": DRAWN.standard_normal((1, 1, 6, 6, 6)).astype("f4"),
    "grid": DRAWN.uniform(-1, 1, (2, 4, 4, 2)).astype("f4"),
    "ints": np.array([-7, -3, 2, 5], "i4"),
    "labels": np.array([1, 0, 3, 2], "i8"),
    "index": np.array([[0, 1], [2, 0], [1, 1], [4, 3]], "i8"),
    "ones": np.ones(50, "f4"),
    "zero": np.float32(0),
}
# A gamma of 1, then a weight; two gradients for each.
PARAMETERS = {"norm.gamma": np.ones(3, "f4"), "fc.weight": DRAWN.standard_normal(3).astype("f4")}
GRADIENTS = 0.01 * DRAWN.standard_normal((2, 2, 3)).astype("f4")


def by_hand(stepped: Callable[..., Any], updated: Callable[..., Sequence[Any]], *begin: float) -> Callable[..., Any]:
    """An optimizer of two formulas: the parameter by its states, and before that the states by the gradient."""
    states: dict[int, Sequence[Any]] = {}

    def step(place: int, parameter: Any, gradient: Any) -> Any:
        states[place] = updated(gradient, *states.get(place, begin))
        return stepped(parameter, gradient, *states[place])

    return step


class Torch:
    """How to run an expression in PyTorch, and to look at what it gives."""

    def __init__(self) -> None:
        import torch

        self.params = [torch.nn.Parameter(torch.tensor(array)) for array in PARAMETERS.values()]
        self.names = {name: torch.tensor(array) for name, array in ARRAYS.items()}
        self.names |= {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "optim": torch.optim}
        self.names |= {"params": self.params, "by_hand": by_hand}
        self.layer, self.optimizer, self.tensor = torch.nn.Module, torch.optim.Optimizer, torch.Tensor

    def parameters(self, layer: Any) -> list[Any]:
        return list(layer.parameters())

    def fill(self, parameter: Any, array: Any) -> None:
        parameter.data = self.tensor(array)

    def train(self, layer: Any) -> Any:
        return layer.train()

    def moving(self, layer: Any) -> Any:
        return layer.running_mean, layer.running_var

    def array(self, tensor: Any) -> Any:
        return tensor.detach().numpy()

    def step(self, optimizer: Any, gradients: Any) -> None:
        import torch

        for place, (parameter, gradient) in enumerate(zip(self.params, gradients, strict=True)):
            parameter.grad = torch.tensor(gradient)
            if not isinstance(optimizer, self.optimizer):
                parameter.data = optimizer(place, parameter.data, parameter.grad)
        if isinstance(optimizer, self.optimizer):
            optimizer.step()

    def items(self, loader: Any) -> list[int]:
        return [int(batch) for batch in loader]


class MindSpore:
    """The same in MindSpore."""

    def __init__(self) -> None:
        import mindspore
        from mindspore import experimental, nn, ops
        from mindspore.common.initializer import Normal, TruncatedNormal, initializer
        from mindspore.dataset import GeneratorDataset
        from mindspore.experimental import optim

        assert optim
        tensor = mindspore.Tensor
        self.params = [mindspore.Parameter(tensor(array), name=name) for name, array in PARAMETERS.items()]
        self.names = {name: tensor(array) for name, array in ARRAYS.items()}
        self.names |= {"ms": mindspore, "nn": nn, "ops": ops, "experimental": experimental, "params": self.params}
        self.names |= {"Normal": Normal, "TruncatedNormal": TruncatedNormal, "initializer": initializer}
        self.names |= {"GeneratorDataset": GeneratorDataset}
        self.layer, self.optimizer, self.tensor = nn.Cell, (nn.Optimizer, optim.Optimizer), tensor

    def parameters(self, layer: Any) -> list[Any]:
        return list(layer.trainable_params())

    def fill(self, parameter: Any, array: Any) -> None:
        parameter.set_data(self.tensor(array))

    def train(self, layer: Any) -> Any:
        return layer.set_train()

    def moving(self, layer: Any) -> Any:
        return layer.moving_mean, layer.moving_variance

    def array(self, tensor: Any) -> Any:
        return tensor.asnumpy()

    def step(self, optimizer: Any, gradients: Any) -> None:
        optimizer(tuple(self.tensor(gradient) for gradient in gradients))

    def items(self, loader: Any) -> list[int]:
        return [int(item) for (item,) in loader.create_tuple_iterator()]


def values(side: Any, result: Any, given: str) -> Any:
    """Arrays: of what a layer with known weights makes of its input, of parameters after two steps, or as they are."""
    if isinstance(result, side.optimizer) or result.__class__.__name__ == "function":
        for gradients in GRADIENTS:
            side.step(result, gradients)
        result = side.params
    elif isinstance(result, side.layer):
        drawn = np.random.default_rng(5)
        for parameter in side.parameters(result):
            side.fill(parameter, drawn.uniform(-0.5, 0.5, tuple(parameter.shape)).astype("f4"))
        result = result(side.names[given])
    if isinstance(result, (tuple, list)):
        return [values(side, part, given) for part in result]
    return side.array(result) if isinstance(result, side.tensor) else result


def moving(side: Any, layer: Any, given: str) -> Any:
    side.train(layer)(side.names[given])
    return values(side, side.moving(layer), given)


LOOKS: dict[str, Callable[[Any, Any, str], Any]] = {
    "values": values,
    "result": lambda _side, result, _given: tuple(result) if isinstance(result, tuple) else result,
    "moving": moving,
    "shape": lambda *all_: tuple(values(*all_).shape),
    "dtype": lambda *all_: values(*all_).dtype.name,
    "parameters": lambda side, layer, _given: len(side.parameters(layer)),
    "slopes": lambda side, layer, _given: len(np.unique(side.array(layer(-side.tensor(np.ones(100, "f4")))))),
    "zeros": lambda side, layer, _given: round(
        float(np.mean(side.array(side.train(layer)(side.tensor(np.ones(100_000, "f4")))) == 0)), 1
    ),
    "deviation": lambda *all_: float(f"{values(*all_).std():.1g}"),
    "distinct": lambda *all_: len(np.unique(values(*all_))) == 50,
    "any": lambda *all_: bool(values(*all_).any()),
    "shuffled": lambda side, loader, _given: side.items(loader) != list(range(100)),
}


def seen(side: Any, expression: str, row: Difference) -> Any:
    """What an expression gives, or the name of the error that it raises."""
    try:
        return LOOKS[row.look](side, eval(expression, dict(side.names)), row.given)
    except Exception as error:
        if type(error).__name__ != row.mindspore_value:
            raise
        return type(error).__name__


def agree(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(agree, one, other))
    if isinstance(one, np.ndarray):
        alike = isinstance(other, np.ndarray) and (one.shape, one.dtype) == (other.shape, other.dtype)
        return alike and np.allclose(one, other, rtol=2e-5, atol=2e-6)
    return type(one) is type(other) and bool(one == other)


def text(result: Any) -> str:
    if isinstance(result, np.ndarray) and result.ndim:
        return re.sub(r"\s+", " ", np.array2string(result, precision=4)).replace("[ ", "[")
    return f"{float(result):.5g}" if isinstance(result, np.ndarray) else str(result)


ROWS = [row for rows in SECTIONS.values() for row in rows]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_defaults_differ_as_the_page_says_and_the_spelling_given_there_agrees(row: Difference) -> None:
    theirs, ours = seen(Torch(), row.torch, row), seen(MindSpore(), row.mindspore, row)
    assert not agree(theirs, ours)
    assert agree(theirs, seen(MindSpore(), row.same, row))
    if row.means:
        assert agree(seen(Torch(), row.means, row), ours)
        spelled = f"{row.torch} {row.means} {row.mindspore} {row.same}"
        numbers = re.findall(r"\d[\d.e-]*\d|\d", f"{row.torch_value} {row.mindspore_value}")
        assert all(number in spelled for number in numbers if number not in "01")
    else:
        assert row.mindspore_value == text(ours)
        assert row.torch_value in (text(theirs), str(np.shape(theirs)))


@pytest.mark.parametrize(("torch", "mindspore", "given"), SAME, ids=[row[0] for row in SAME])
def test_what_the_page_calls_the_same_is_the_same(torch: str, mindspore: str, given: str) -> None:
    row = Difference("", "", torch, "", mindspore, "", "", given=given)
    assert agree(seen(Torch(), torch, row), seen(MindSpore(), mindspore, row))
