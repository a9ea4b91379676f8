"""Environments of other tools, made once in a cache folder by pip."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["PEERS", "VENDOR", "VENDOR_RELEASE", "cache_folder", "environment", "vendor_script"]

VENDOR_RELEASE = "26.2.0"
# Its command for files needs these of the many packages that it asks for.
VENDOR = ((f"mindstudio-probe=={VENDOR_RELEASE}", "--no-deps"), ("numpy", "protobuf", "psutil"))
PEERS = (("numpy", "torch", "polygraphy"),)


def cache_folder() -> Path:
    """Return where environments are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "msdump-benchmarks"


def environment(cache: Path, name: str, installs: Sequence[Sequence[str]]) -> Path:
    """Return the Python of an environment, made when it is not there.

    Parameters
    ----------
    installs : sequence of sequence of str
        The arguments of each ``pip install``, one after the other.

    Raises
    ------
    subprocess.CalledProcessError
        pip could not install it.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    # Another list of packages is another environment.
    digest = hashlib.sha256(repr(installs).encode()).hexdigest()[:8]
    folder = cache / f"{name}-{version}-{digest}"
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"making {folder}", file=sys.stderr)
        started = folder.with_name(folder.name + ".unfinished")
        shutil.rmtree(started, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", started], check=True)
        for arguments in installs:
            # By its Python: scripts of an environment hold its path, and this folder will be renamed.
            pip = [started / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
            subprocess.run([*map(str, pip), *arguments], check=True, stderr=subprocess.DEVNULL)
        started.rename(folder)
    return python


def vendor_script(python: Path) -> Path:
    """Return the vendor's script: its modules import each other as its neighbours, so it is run as a file."""
    return next(python.parent.parent.glob("lib/python*/site-packages/msprobe/msaccucmp/msaccucmp.py"))
