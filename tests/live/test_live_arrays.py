"""Tensors of real frameworks are recorded and compared bit for bit, each by its own interpreter."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from docs_pages import ROOT


@pytest.mark.live
@pytest.mark.parametrize(("framework", "types"), [("torch", 21), ("mindspore", 15)])
def test_every_type_of_a_framework_is_read_back_bit_for_bit(framework: str, types: int, tmp_path: Path) -> None:
    variable = f"MSDUMP_{framework.upper()}_PYTHON"
    python = os.environ.get(variable)
    if not python:
        pytest.skip(f"{variable} is not set")
    done = subprocess.run(
        [python, Path(__file__).with_name(f"arrays_of_{framework}.py"), tmp_path / "dump"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{types} types"
