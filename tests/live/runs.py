"""Networks of tests/live/nets run by MindSpore, and the command, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NETS = Path(__file__).parent / "nets"
EVERYTHING = {
    "dump_mode": 0,
    "net_name": "Net",
    "iteration": "all",
    "saved_data": "tensor",
    "input_output": 0,
    "kernels": [],
    "support_device": [0],
    "op_debug_mode": 0,
    "file_format": "npy",
}


@dataclass(frozen=True)
class Asked:
    """One run to make: a network, and what its dump configuration says unlike `EVERYTHING`."""

    net: str
    common: Mapping[str, Any] = field(default_factory=dict)
    e2e: Mapping[str, Any] = field(default_factory=dict)
    times: int = 1
    # Below $MS_DIAGNOSTIC_DATA_PATH, which is taken when the configuration has no path.
    below: str = ""


@dataclass(frozen=True)
class Made:
    """One run that was made."""

    asked: Asked
    folder: Path
    config: Path
    root: Path
    code: int
    printed: str
    results: Path


def make(python: str, asked: Asked, folder: Path) -> Made:
    """Run a network as often as it is asked to, into one directory."""
    folder.mkdir()
    config, results, root = folder / "dump.json", folder / "seen.npz", folder / "dump" / asked.below
    common = {**EVERYTHING, "path": "" if asked.below else str(root), **asked.common}
    settings = {
        "common_dump_settings": common,
        "e2e_dump_settings": {"enable": True, "trans_flag": True, **asked.e2e},
    }
    config.write_text(json.dumps(settings))
    variables = {"MINDSPORE_DUMP_CONFIG": str(config), "GLOG_v": "3"}
    if asked.below:
        variables["MS_DIAGNOSTIC_DATA_PATH"] = str(folder / "dump")
    for _ in range(asked.times):
        ran = run([python, str(NETS / f"{asked.net}.py"), str(results)], variables, folder)
    return Made(asked, folder, config, root, ran.returncode, ran.stdout + ran.stderr, results)


def run(command: Sequence[str], variables: Mapping[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=os.environ | variables, cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
