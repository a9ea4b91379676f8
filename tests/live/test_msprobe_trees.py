"""A training that msprobe dumped, against our own recording of it. Needs msprobe."""

import json

import pytest

from pytest_msdump.capabilities.record.torch import TorchRecording
from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json

torch = pytest.importorskip("torch")
msprobe = pytest.importorskip("msprobe.pytorch")

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4, 5)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


def network():
    torch.manual_seed(5)
    net = Net()
    return net, torch.optim.SGD(net.parameters(), 0.1)


def backward(net, optimizer):
    optimizer.zero_grad()
    net(torch.randn(2, 3, 8, 8)).square().mean().backward()


@pytest.fixture(scope="module")
def dumped(tmp_path_factory):
    """A tree of a training of two steps; one process has one debugger."""
    root = tmp_path_factory.mktemp("msprobe")
    task = {"scope": [], "list": [], "data_mode": ["all"]}
    config = {"task": "tensor", "dump_path": str(root / "tree"), "rank": [], "step": [], "level": "mix", "tensor": task}
    (root / "config.json").write_text(json.dumps(config))
    net, optimizer = network()
    debugger = msprobe.PrecisionDebugger(config_path=str(root / "config.json"))
    for _ in range(2):
        debugger.start(model=net)
        backward(net, optimizer)
        debugger.stop()
        debugger.step()
        optimizer.step()
    return root / "tree"


def test_a_tree_pairs_with_our_own_recording(dumped, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net, optimizer = network()
    with TorchRecording(net, "ours", inputs=True, gradients=True, parameters=True, iterations=2) as recording:
        for _ in range(2):
            with recording.iteration():
                backward(net, optimizer)
                optimizer.step()
    assert main(["compare", str(dumped), "ours", "--io", "all", "--report", "json"]) == 0, capsys.readouterr().out
    tensors = read_json(tmp_path / "msdump-report" / "results.json")["tensors"]
    names = {tensor["left"]["address"] for tensor in tensors}
    assert {"conv:output:0", "conv.weight:output:0", "conv.weight/grad:output:0", "head/grad_output:output:0"} <= names
