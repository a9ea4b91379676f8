"""Run both frameworks and write their dumps: the reference by PyTorch, the run under test by MindSpore.

Each framework wants a virtual environment of its own, so each runs under the interpreter that is named for it:

    python make_dumps.py --torch-python TORCH_ENV/bin/python --mindspore-python MINDSPORE_ENV/bin/python

Without these options the interpreter that runs this script is used. `--out DIR` writes elsewhere than beside this
script; `--network FILE` runs another port; `--only run` or `--only reference` makes one side.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

DUMP_CONFIG = {
    "common_dump_settings": {
        "op_debug_mode": 0,
        "dump_mode": 0,
        "path": "",
        "net_name": "Lenet",
        "iteration": "all",
        "saved_data": "tensor",
        "input_output": 0,
        "kernels": [],
        "support_device": [0],
    },
    "e2e_dump_settings": {"enable": True, "trans_flag": True},
}


def main() -> None:
    """Make what was asked for."""
    arguments = parsed()
    with tempfile.TemporaryDirectory(prefix="msdump_example_") as work:
        weights = Path(work) / "weights.npz"
        has_numpy = arguments.mindspore_python if arguments.only == "run" else arguments.torch_python
        run([has_numpy, HERE / "make_weights.py", weights])
        if arguments.only != "run":
            make_reference(arguments, weights)
        if arguments.only != "reference":
            make_run(arguments, weights, Path(work) / "dump")


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Run PyTorch and MindSpore and write their dumps.")
    parser.add_argument("--torch-python", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--mindspore-python", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--network", type=Path, default=HERE / "network.py", metavar="FILE")
    parser.add_argument("--out", type=Path, default=HERE, metavar="DIR")
    parser.add_argument("--only", choices=("reference", "run"))
    return parser.parse_args()


def make_reference(arguments: argparse.Namespace, weights: Path) -> None:
    """Let PyTorch write `reference/`."""
    reference = emptied(arguments.out / "reference")
    run([arguments.torch_python, HERE / "make_reference.py", weights, reference])


def make_run(arguments: argparse.Namespace, weights: Path, dump: Path) -> None:
    """Let MindSpore write its dump tree to `dump`, and move it to `run/`."""
    if not re.fullmatch(r"[\w/-]+", str(dump), re.ASCII):
        raise SystemExit(f"{dump}: MindSpore dumps only to paths of letters, digits, '-', '_' and '/'; set TMPDIR")
    config = dump.with_suffix(".json")
    DUMP_CONFIG["common_dump_settings"]["path"] = str(dump)
    config.write_text(json.dumps(DUMP_CONFIG, indent=2) + "\n")
    command = [arguments.mindspore_python, HERE / "make_target.py", arguments.network.resolve(), weights]
    run(command, cwd=dump.parent, MINDSPORE_DUMP_CONFIG=str(config), GLOG_v="3")
    without_machine_paths(dump)
    shutil.copytree(dump, emptied(arguments.out / "run"), dirs_exist_ok=True)


def without_machine_paths(dump: Path) -> None:
    """Drop what names this machine's folders, and make read-only files removable. No tensor is touched."""
    for path in [dump, *dump.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    for graphs in dump.glob("rank_*/graphs"):
        shutil.rmtree(graphs)
    for copied in dump.glob("rank_*/.dump_metadata/data_dump.json"):
        settings = json.loads(copied.read_text())
        settings["common_dump_settings"]["path"] = "/dump"
        copied.write_text(json.dumps(settings, indent=2) + "\n")


def emptied(directory: Path) -> Path:
    """Return `directory`, made anew."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return directory


def run(command: list[str | Path], cwd: Path | None = None, **environment: str) -> None:
    """Run one step; what it prints is shown, and its failure is ours. MindSpore leaves a log in its `cwd`."""
    # The interpreters are those that the person at the keyboard named.
    finished = subprocess.run(  # noqa: S603
        [str(part) for part in command], cwd=cwd, env=os.environ | environment, check=False
    )
    if finished.returncode:
        raise SystemExit(f"{Path(command[1]).name} failed with exit code {finished.returncode}")


if __name__ == "__main__":
    main()
