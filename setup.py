"""The compiled kernel, where there is a compiler, and the README of a release; all else is in pyproject.toml.

With MSDUMP_PURE=1 in the environment the wheel is for every platform and has no kernel: numpy does its work.
"""

import hashlib
import os
import re
from pathlib import Path

import setuptools

# pip installs the one it needs. `python setup.py build_ext` takes what is there; an old one cannot read pyproject.toml.
if int(setuptools.__version__.split(".")[0]) < 77:
    raise SystemExit(
        f"setuptools {setuptools.__version__} is too old to build pytest-msdump\n"
        "it needs 77 or newer: pip install 'setuptools>=77'"
    )

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
SOURCE = "pytest_msdump/core/metrics/kernel.c"
# The library says which source it was built from: that of another one is not loaded.
DIGEST = hashlib.sha256((ROOT / SOURCE).read_bytes()).hexdigest()


def readme() -> str:
    """Return README.md with links to the repository in place of relative ones; pictures are linked as they are."""
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    repository = re.search(r'^Repository = "(.*)"$', project, re.MULTILINE)[1]

    def absolute(found: re.Match[str]) -> str:
        return f"{found[1]}({repository}/{'raw' if found[1].startswith('!') else 'blob'}/main/"

    return re.sub(r"(!?\[[^]]*\])\((?!\w+:|#)", absolute, (ROOT / "README.md").read_text("utf-8"))


class BuildLibrary(build_ext):
    """Builds a plain shared library: it is loaded by ctypes, and knows nothing of Python."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return where it is built, under a name that no import takes for a module."""
        return fullname.replace(".", "/") + ".native.so"


class OneWheelForEveryPython(bdist_wheel):
    """Names the wheel ``py3-none-PLATFORM``."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of Python, of its binary interface, and of the platform."""
        return "py3", "none", super().get_tag()[2]


setup(
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": OneWheelForEveryPython},
    long_description=readme(),
    long_description_content_type="text/markdown",
    ext_modules=[]
    if os.environ.get("MSDUMP_PURE") == "1"
    else [
        Extension(
            "pytest_msdump.core.metrics._kernel",
            [SOURCE],
            define_macros=[("MSDUMP_SOURCE", f'"{DIGEST}"')],
            # Where it cannot be built, numpy does the same work.
            optional=True,
            # Nothing here loosens arithmetic: no contraction to fused operations; traps and errno are not used.
            extra_compile_args=["-O3", "-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno", "-Wno-psabi"],
        ),
    ],
)
