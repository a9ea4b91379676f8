"""Whether a PyTorch model makes the same numbers each time. Needs PyTorch."""

import threading
from copy import deepcopy

import pytest

from pytest_msdump.capabilities.programs.repeats import repeat, repeat_lines
from pytest_msdump.core.compare.opening import index
from pytest_msdump.core.text import say
from pytest_msdump.record import Recorder

torch = pytest.importorskip("torch")
nn = torch.nn

pytestmark = pytest.mark.live


@pytest.fixture
def repeats(tmp_path):
    """Make a model, call it and go back through it, a number of times."""

    def repeats(make, *, n=3, seeds=None, **options):
        numbers = iter(range(n))

        def run(directory):
            number = next(numbers)
            torch.manual_seed(seeds[number] if seeds else 7)
            model = make(number)
            x = torch.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)
            with Recorder(directory).torch(model, directory=directory, **options):
                model(x).square().sum().backward()
            return index(directory)

        return repeat(run, n, tmp_path / "runs")

    return repeats


class ThreadedSum(nn.Module):
    """Adds up columns by a thread each, in an order that the run decides: in float32 the order is in the sum."""

    def __init__(self, order):
        super().__init__()
        self.order = order

    def forward(self, x):
        total = torch.zeros(len(x))
        turns = [threading.Event() for _ in range(len(self.order) + 1)]

        def add(place, column):
            turns[place].wait(60)
            total.add_(x[:, column].detach() * 1e8 ** (column % 2))
            turns[place + 1].set()

        threads = [threading.Thread(target=add, args=one) for one in enumerate(self.order)]
        for thread in threads:
            thread.start()
        turns[0].set()
        for thread in threads:
            thread.join()
        return total + x.sum(1) * 0


def net(*, middle=None):
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), middle or nn.Identity(), nn.Tanh()
    )


def test_a_deterministic_model_gives_no_difference_in_twenty_runs(repeats):
    found = repeats(lambda _: net(middle=nn.Dropout(0.5)), n=20, gradients=True, parameters=True, inputs=True)
    assert (found.runs, found.differing, found.differences, found.alone, found.given) == (20, 0, (), (), ())
    assert found.tensors > 30


def test_a_race_of_threads_is_named_at_its_module(repeats):
    orders = [list(range(144)), list(range(144)), list(reversed(range(144)))]
    found = repeats(lambda number: net(middle=ThreadedSum(orders[number])))
    [one] = found.differences
    assert (one.tensor.address, one.tensor.op_type, one.runs) == ("4:output:0", "ThreadedSum", (3,))
    assert "       all of its inputs that were compared are equal" in repeat_lines(found)


def test_dropout_without_one_seed_stands_apart(repeats):
    model = net(middle=nn.Dropout(0.5))
    found = repeats(lambda _: deepcopy(model), seeds=[1, 2, 3])
    [one] = found.differences
    assert (one.tensor.address, one.is_random) == ("4:output:0", True)
    assert "       random by design: seed it (seeds differ from run 1 in runs 2, 3)" in repeat_lines(found)
    assert not found.given


def test_weights_that_were_not_the_same_are_said(repeats):
    found = repeats(lambda _: net(), seeds=[1, 1, 3])
    assert [say(one) for one in found.given] == ["weight 0.weight (run 3)", "weight 0.bias (run 3)"]
    assert found.differences[0].tensor.address == "0:output:0"
    assert any(line.endswith(", but the runs were not given the same") for line in repeat_lines(found))
