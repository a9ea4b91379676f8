"""Dumps by the debugger of Transformers, and by SGLang's where it is unpacked, made anew and held to our own hooks."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import index, open_logical

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]

# What the wheel of SGLang unpacks to; of it two modules are loaded alone.
SGLANG = os.environ.get("MSDUMP_SGLANG", "")
PROGRAM = Path(__file__).parents[1] / "data" / "hooks" / "make.py"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of dumps, and by start, step and module what its last call gave."""
    out = tmp_path_factory.mktemp("hooks")
    subprocess.run([sys.executable, "-W", "ignore", PROGRAM, out, *filter(None, [SGLANG])], check=True, timeout=600)
    values = np.load(out / "values.npz")
    return out, {key if key.endswith("/grad") else key.rpartition("/")[0]: values[key] for key in values}


def held_to(root, values, start):
    """Return how many outputs of modules there are, all of them equal to what was seen."""
    held = 0
    for ref in index(root).refs:
        at = ref.key.op.at
        seen = values.get(f"{start.format(at.rank)}/step{at.iteration}/{ref.key.op.label}")
        if seen is not None and (ref.key.io, ref.key.slot) == ("output", 0):
            with closing(open_logical(ref)) as view:
                np.testing.assert_array_equal(view.read(0, view.size).reshape(view.shape), seen)
            held += 1
    return held


def test_arrays_beside_a_tree_are_what_hooks_saw(made):
    out, values = made
    assert held_to(out / "debug_tree", values, "debug_tree") == 8


@pytest.mark.skipif(not SGLANG, reason="MSDUMP_SGLANG names no unpacked wheel")
def test_passes_and_gradients_of_two_ranks_are_what_hooks_saw(made):
    out, values = made
    assert held_to(out / "sglang_passes", values, "sglang_passes/rank{}") == 16
    gradients = {key: array for key, array in values.items() if key.endswith("/grad")}
    assert held_to(out / "sglang_dumper", gradients, "sglang_dumper/rank{}") == 12


@pytest.mark.skipif(not SGLANG, reason="MSDUMP_SGLANG names no unpacked wheel")
@pytest.mark.parametrize(("name", "whole"), [("megatron_4", "megatron_1"), ("sglang_2", "sglang_1")])
def test_ranks_of_a_sharded_run_make_the_whole_one(made, name, whole, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = made[0] / "sglang_shards"
    suite = f'[msdump]\nleft = "{root / name}"\nright = "{root / whole}"\n[msdump.shards.left]\nfrom = "meta"\n'
    (tmp_path / "msdump.toml").write_text(suite)
    assert main(["compare", "--config", "msdump.toml"]) == 0
    out = capsys.readouterr().out
    assert "left: 4 tensors put together" in out
    assert "every pair is equal, bit for bit" in out
