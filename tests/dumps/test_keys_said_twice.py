"""A key that a JSON file of a dump has twice is refused: a reader would believe one of its two values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.cli import main
from pytest_msdump.record import DumpWriter

SHAPE = (100, 60)


def msprobe(folder: Path, value: float) -> Path:
    numbers = {"Max": value, "Min": value, "Mean": value, "Norm": value * 77, "md5": f"{int(value):08x}"}
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": SHAPE, **numbers}
    data = {"Module.fc.Linear.forward.0": {"input_args": [], "input_kwargs": {}, "output": [leaf]}}
    folder = folder / "step0" / "rank0"
    folder.mkdir(parents=True)
    text = json.dumps(
        {"task": "statistics", "level": "L0", "framework": "pytorch", "dump_data_dir": None, "data": data}
    )
    (folder / "dump.json").write_text(text, "utf-8")
    for name in ("construct", "stack"):
        (folder / f"{name}.json").write_text("{}", "utf-8")
    return folder / "dump.json"


def recorded(folder: Path, value: float) -> Path:
    with DumpWriter(folder, save="sketch") as writer:
        writer.write("fc", np.full(SHAPE, value, "f4"))
    return folder / "msdump.json"


@pytest.mark.parametrize(
    ("write", "key", "again", "told"),
    [
        (msprobe, '"Max": 1.0', '"Max": 7.0', "dump.json cannot be read: 'Max' is there twice"),
        (recorded, '"op": "fc"', '"op": "fc2"', "msdump.json does not say that it is complete"),
    ],
)
def test_a_key_that_is_there_twice_is_refused(tmp_path, monkeypatch, capsys, write, key, again, told):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "left", 1.0)
    write(tmp_path / "right", 1.0)
    assert main(["compare", "left", "right"]) == 0
    text = file.read_text("utf-8")
    assert text.count(key) == 1
    file.write_text(text.replace(key, f"{key}, {again}"), "utf-8")
    capsys.readouterr()
    assert main(["compare", "left", "right"]) in (1, 4)
    printed = capsys.readouterr()
    assert told in " ".join((printed.err + printed.out).split())
