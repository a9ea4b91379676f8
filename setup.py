"""The compiled kernel, where there is a compiler; everything else is in pyproject.toml."""

import hashlib
from pathlib import Path

import setuptools
from setuptools import Extension, setup

# pip installs the one it needs. `python setup.py build_ext` takes what is there; an old one cannot read pyproject.toml.
if int(setuptools.__version__.split(".")[0]) < 77:
    raise SystemExit(
        f"setuptools {setuptools.__version__} is too old to build pytest-msdump\n"
        "it needs 77 or newer: pip install 'setuptools>=77'"
    )

SOURCE = "pytest_msdump/metrics/sweep.c"
# The extension says of which source it was built: records of another one are not taken for its own.
DIGEST = hashlib.sha256((Path(__file__).parent / SOURCE).read_bytes()).hexdigest()[:15]

setup(
    ext_modules=[
        Extension(
            "pytest_msdump.metrics._sweep",
            [SOURCE],
            define_macros=[("MSDUMP_SOURCE", f"source_{DIGEST}")],
            # Where it cannot be built, numpy does the same work.
            optional=True,
            # Nothing here loosens arithmetic: no contraction to fused operations, and no one asks for traps or errno.
            extra_compile_args=["-O3", "-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno", "-Wno-psabi"],
        ),
    ]
)
