"""Autocast of PyTorch as recordings say it, and gradients of which rounding alone is left. Needs PyTorch."""

import pytest
from live.recordings import manifest_of

from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.suite import load_suite

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.live


def records(left, right, profile="default"):
    options = {"left": str(left.directory), "right": str(right.directory), "profile": profile}
    planned = plan(load_suite(file=None, options=options, directory=left.directory.parent))
    return {one.left.address: one for one in build_report(planned, compare_plan(planned)).records}


def classifier(autocast):
    class Classifier(torch.nn.Module):
        """Under autocast within itself alone, but for its last layer."""

        def __init__(self):
            super().__init__()
            self.trunk = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(6)])
            self.norm, self.head = torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                x = self.norm(self.trunk(x))
            return self.head(x.float())

    torch.manual_seed(0)
    return Classifier()


@pytest.mark.parametrize("autocast", [True, False])
def test_a_region_of_autocast_inside_of_a_model_is_seen(recorder, autocast):
    recordings = []
    for inside in (autocast, False):
        model = classifier(inside)
        with recorder.torch(model, gradients=True, parameters=True) as recording:
            model(torch.randn(8, 32, generator=torch.Generator().manual_seed(1))).square().mean().backward()
        recordings.append(recording)
    assert [manifest_of(one)["dtype_policy"] for one in recordings] == ["autocast bfloat16" if autocast else "", ""]
    found = records(*recordings)
    for address, record in found.items():
        is_loose = autocast and record.left.op_type != "Parameter"
        assert (address, record.judged_as) == (address, "bfloat16" if is_loose else "float32")
    assert not [address for address, record in found.items() if record.fails]


def convolutions():
    torch.manual_seed(3)
    layers = [torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Conv2d(16, 24, 3)]
    layers += [torch.nn.BatchNorm2d(24), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(24 * 12 * 12, 5)]
    return torch.nn.Sequential(*layers)


def attention():
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = (torch.nn.Linear(32, 32) for _ in range(3))

        def forward(self, x):
            return (self.query(x) @ self.key(x).transpose(1, 2) / 32**0.5).softmax(-1) @ self.value(x)

    torch.manual_seed(4)
    return Attention()


@pytest.mark.parametrize("profile", ["default", "strict"])
@pytest.mark.parametrize(
    ("make", "shape", "zero"),
    [(convolutions, (4, 3, 16, 16), {"0.bias", "3.bias"}), (attention, (4, 20, 32), {"key.bias"})],
)
def test_biases_without_effect_are_told_from_all_other_gradients(recorder, make, shape, zero, profile):
    recordings = []
    for dtype in (torch.float32, torch.float64):
        model = make().to(dtype)
        with recorder.torch(model, gradients=True) as recording:
            x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
            (model(x) * torch.linspace(-1, 1, model(x).shape[-1], dtype=dtype)).square().sum().backward()
        recordings.append(recording)
    found = records(*recordings, profile)
    assert not [address for address, record in found.items() if record.fails]
    noise = {address for address, record in found.items() if record.verdict.outcome == "warn"}
    assert noise == {f"{name}/grad:output:0" for name in zero}
