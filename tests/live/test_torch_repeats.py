"""Whether a PyTorch model makes the same numbers each time. Needs PyTorch."""

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


def net(*, middle=None):
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), middle or nn.Identity(), nn.Tanh()
    )


def test_a_deterministic_model_gives_no_difference_in_twenty_runs(repeats):
    found = repeats(lambda _: net(middle=nn.Dropout(0.5)), n=20, gradients=True, parameters=True, inputs=True)
    assert (found.runs, found.differing, found.differences, found.alone, found.given) == (20, 0, (), (), ())
    assert found.tensors > 30


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
