"""Make the dump of this example anew, in an environment with MindSpore 2.10: python make_dumps.py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Run the training in a folder of its own, and take its dump."""
    with tempfile.TemporaryDirectory() as folder:
        run, config = Path(folder, "run"), Path(folder, "data_dump.json")
        for name in ("net.py", "train.py"):
            shutil.copy(HERE / name, folder)
        command = [sys.executable, "-m", "pytest_msdump", "config", "new", "--path", str(run), "--out", str(config)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - the package itself
        subprocess.run(
            [sys.executable, "train.py"],
            cwd=folder,
            env={**os.environ, "MINDSPORE_DUMP_CONFIG": str(config)},
            check=True,
        )
        shutil.rmtree(HERE / "run", ignore_errors=True)
        shutil.move(run, HERE / "run")


if __name__ == "__main__":
    main()
