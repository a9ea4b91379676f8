"""The vendor's layer mapping pairs modules whose names differ, and what is no such file is refused."""

import json

import pytest

from pytest_msdump.capabilities.msprobe.layers import read_layers
from pytest_msdump.cli import main
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.report.json_report import read_json

# The example of msprobe's documentation, with what YAML also allows.
MAPPING = """\
---
TopLayer:                           # Layer name
  network_with_loss: module

"ParallelTransformerLayer":
  attention: self_attention(SelfAttention)

ParallelAttention:
    # of both projections
    qkv_proj: 'query_key_value'
    out_proj.0: dense  # the first
"""
LEFT = {
    "network_with_loss.layers.0": "ParallelTransformerLayer",
    "network_with_loss.layers.0.attention": "ParallelAttention",
    "network_with_loss.layers.0.attention.qkv_proj": "Linear",
    "network_with_loss.layers.0.attention.out_proj.0": "Linear",
    "network_with_loss.head.qkv_proj": "Linear",
}
RIGHT = [
    "module.layers.0",
    "module.layers.0.self_attention",
    "module.layers.0.self_attention.query_key_value",
    "module.layers.0.self_attention.dense",
    "module.head.qkv_proj",
]


def written(folder, kind, names):
    leaf = {"type": "", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 1.0}
    entry = {"input_args": [leaf], "input_kwargs": {}, "output": [leaf]}
    data = {f"{kind}.{name}.{op_type}.forward.0": entry for name, op_type in names.items()}
    folder.mkdir()
    (folder / "dump.json").write_text(json.dumps({"task": "statistics", "level": "L0", "data": data}))


def test_names_are_those_of_the_layers_that_modules_are_in(tmp_path):
    written(tmp_path / "ms", "Cell", LEFT)
    written(tmp_path / "pt", "Module", dict.fromkeys(RIGHT, "Linear"))
    (tmp_path / "layer_mapping.yaml").write_text(MAPPING)
    suite = tmp_path / "s.msdump.toml"
    suite.write_text('[msdump]\nleft = "ms"\nright = "pt"\nio = "all"\nmap = "layer_mapping.yaml"\n')
    assert main(["compare", "--config", str(suite), f"--report-dir={tmp_path}/out"]) == 0
    records = read_json(tmp_path / "out/results.json")["tensors"]
    pairs = {(one["left"]["true_name"], one["right"]["true_name"]) for one in records}
    assert pairs == set(zip(LEFT, RIGHT, strict=True))
    assert (len(records), {one["how"] for one in records}) == (10, {"mapped"})


def test_the_top_layer_has_another_name_in_older_files(tmp_path):
    (tmp_path / "m.yaml").write_text("Cell:\n  net: module\n")
    assert read_layers(tmp_path / "m.yaml", where="map").among({})("net.fc") == "module.fc"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fc1.Dense: fc1.Linear\n", "line 1: 'fc1.Dense: fc1.Linear' is no line of a layer mapping"),
        ("A:\n  b: {c: d}\n", "line 2"),
        ("A:\n  b:\n    c: d\n", "line 2"),
        ("A: &x\n  b: c\n", "line 1"),
        ("- A\n", "line 1"),
        ("\tb: c\n", "line 1"),
        ("  b: c\n", "line 1"),
        ("A:\n  b: c\n  b: d\n", "line 3: 'b' is there twice"),
        ("A:\n  b: c\nA:\n  d: e\n", "line 3: 'A' is there twice"),
        ("A:\n", "has no names"),
        ("", "has no names"),
        ("\x00", "line 1"),
    ],
)
def test_what_is_no_layer_mapping_is_refused_with_its_line(text, said, tmp_path):
    (tmp_path / "m.yaml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_layers(tmp_path / "m.yaml", where="map")
