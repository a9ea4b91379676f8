"""A Keras model on PyTorch is recorded as on TensorFlow: operators of the same names, with the same numbers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_msdump import open_dump
from pytest_msdump.cli import main

for package in ("keras", "torch", "tensorflow"):
    pytest.importorskip(package)

pytestmark = [pytest.mark.live, pytest.mark.e2e]


def recorded(folder, backend, *words):
    program = Path(__file__).with_name("keras_backends.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", program, folder, *words],
        capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "KERAS_BACKEND": backend},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / backend


@pytest.mark.parametrize("method", ["keras", "torch"])
def test_the_torch_backend_is_recorded_as_tensorflow_is(method, tmp_path, capsys):
    left = recorded(tmp_path, "torch", method, "--without-tensorflow")
    right = recorded(tmp_path, "tensorflow", "keras")
    names = [sorted(ref.key.address for ref in open_dump(folder).refs) for folder in (left, right)]
    assert names[0] == names[1]
    assert {"a/kernel/grad:output:0", "head/c/grad_output:output:0", "head/relu:output:0", "own:input:0"} <= {*names[0]}
    assert main(["compare", str(left), str(right), "--io", "all", f"--report-dir={tmp_path}/out"]) == 0
    assert f"{len(names[0])} tensors: {len(names[0])} pass" in capsys.readouterr().out
