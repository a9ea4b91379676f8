"""Run the wrong port in MindSpore and write its dump to `run/`; the reference is that of 01_lenet_port.

    python make_dumps.py --mindspore-python MINDSPORE_ENV/bin/python

Takes `--mindspore-python` and `--out`, which mean what they mean in ../01_lenet_port/make_dumps.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MAKER = HERE.parent / "01_lenet_port" / "make_dumps.py"

if __name__ == "__main__":
    command = [sys.executable, str(MAKER), "--only", "run", "--network", str(HERE / "network.py"), "--out", str(HERE)]
    # What the caller says comes last and wins.
    raise SystemExit(subprocess.run([*command, *sys.argv[1:]], check=False).returncode)  # noqa: S603
