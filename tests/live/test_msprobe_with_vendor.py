"""DTensors that msprobe dumped are put together, and its layer mappings pair what msprobe itself pairs."""

import json
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json

# Imported by other processes alone: it puts a stub in the place of TensorFlow.
if find_spec("msprobe") is None:
    pytest.skip("msprobe is not installed", allow_module_level=True)

pytestmark = [pytest.mark.live, pytest.mark.e2e, pytest.mark.filterwarnings("ignore")]

LEAF = {"type": "", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 1.0}
PARTS = ["x", "y", "z", "0", "1"]
MAPPING = """
import json, sys
from msprobe.core.compare.layer_mapping.layer_mapping import generate_api_mapping_by_layer_mapping
print(json.dumps(generate_api_mapping_by_layer_mapping(*sys.argv[1:])))
"""


def name_of(side):
    return side.get("true_name") or side["address"].rsplit(":", 2)[0]


def ran(*words):
    command = [sys.executable, "-W", "ignore", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_dtensors_of_four_ranks_are_the_tensors_of_one(tmp_path):
    for world_size in ("4", "1"):
        ran(Path(__file__).with_name("msprobe_dtensors.py"), tmp_path, world_size)
    code = main(["compare", f"{tmp_path}/4", f"{tmp_path}/1", "--io", "all", f"--report-dir={tmp_path}/out"])
    records = read_json(tmp_path / "out/results.json")["tensors"]
    verdicts = {(name_of(one["left"]), one["verdict"]) for one in records}
    whole = {(name, "pass") for name in ("rows", "cells", "terms", "copies")}
    assert (code, verdicts) == (1, {*whole, ("blocks", "error")})


def written(folder, kind, names):
    folder.mkdir()
    entry = {"input_args": [], "input_kwargs": {}, "output": [LEAF]}
    data = {f"{kind}.{name}.{op_type}.forward.0": entry for name, op_type in names.items()}
    framework = "mindspore" if kind == "Cell" else "pytorch"
    values = {"task": "statistics", "level": "L0", "framework": framework, "dump_data_dir": None, "data": data}
    (folder / "dump.json").write_text(json.dumps(values))
    for name in ("stack.json", "construct.json"):
        (folder / name).write_text(json.dumps(dict.fromkeys(data)))
    return folder / "dump.json"


@pytest.mark.parametrize("seed", range(3))
def test_a_layer_mapping_pairs_what_msprobe_pairs(seed, tmp_path):
    choose = random.Random(seed)
    names = {".".join(choose.choices(PARTS, k=choose.randint(1, 4))): choose.choice("ABC") for _ in range(60)}
    others = {".".join(choose.choices([*PARTS, "q"], k=choose.randint(1, 4))) for _ in range(60)} | set(names)
    left = written(tmp_path / "ms", "Cell", names)
    right = written(tmp_path / "pt", "Module", dict.fromkeys(sorted(others), "T"))
    mapping = tmp_path / "m.yaml"
    lines = [
        f"{layer}:\n  '{choose.choice(PARTS)}': '{choose.choice(PARTS)}'\n  '{'.'.join(choose.choices(PARTS, k=2))}': q"
        for layer in ("TopLayer", "A", "B", "x")
    ]
    mapping.write_text("\n".join(lines))
    theirs = json.loads(ran("-c", MAPPING, left, right, mapping).splitlines()[-1])
    wanted = {
        (mine.split(".", 1)[1].rsplit(".", 3)[0], other.split(".", 1)[1].rsplit(".", 3)[0])
        for mine, other in theirs.items()
        if other != "N/A"
    }
    suite = tmp_path / "s.msdump.toml"
    suite.write_text('[msdump]\nleft = "ms"\nright = "pt"\npair_by = ["map", "name"]\nmap = "m.yaml"\n')
    main(["compare", "--config", str(suite), f"--report-dir={tmp_path}/out"])
    records = read_json(tmp_path / "out/results.json")["tensors"]
    pairs = {(name_of(one["left"]), name_of(one["right"])) for one in records}
    assert len(wanted) > 20
    # Where two modules are renamed to one name, it is no longer paired by its own.
    assert pairs >= {pair for pair in wanted if pair[0] != pair[1]}
    assert pairs <= wanted
