"""Modules of PyTorch that are tried go on with what another run had. Needs PyTorch."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump import open_dump
from pytest_msdump.record import Recorder

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.live


def values(folder: Path) -> dict[str, np.ndarray]:
    dump = open_dump(folder)
    return {ref.key.op.label: dump.read(ref.key.address) for ref in dump.dump.refs if ref.key.io == "output"}


@pytest.mark.parametrize("trains", [False, True])
def test_only_the_module_that_changed_makes_other_numbers(
    trains: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4), torch.nn.Tanh())
    other, x = copy.deepcopy(net), torch.randn(2, 4)
    with torch.no_grad():
        other[0].weight *= 1.5
    recorder = Recorder(tmp_path)
    for name, model in (("first", net), ("tried", other)):
        with recorder.torch(model, directory=tmp_path / name), torch.set_grad_enabled(trains):
            made = model(x)
            if trains:
                made.sum().backward()
        monkeypatch.setenv("MSDUMP_GIVEN", str(tmp_path / "first"))
        monkeypatch.setenv("MSDUMP_TRIAL", str(tmp_path))
    first, tried = values(tmp_path / "first"), values(tmp_path / "tried")
    assert [name for name in first if not np.array_equal(first[name], tried[name])] == ["0"]
    assert json.loads((tmp_path / "handed_on.json").read_text("utf-8"))["kept"] == []
