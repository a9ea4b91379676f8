"""What is compiled, where there is a compiler; everything else is in pyproject.toml."""

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


def compiled(name, source, **options):
    """Describe an extension of one file, which tells of which: records of another one are not taken for its own.

    Where it cannot be built, numpy or Python does the same work.
    """
    digest = hashlib.sha256((Path(__file__).parent / source).read_bytes()).hexdigest()[:15]
    return Extension(name, [source], define_macros=[("MSDUMP_SOURCE", f"source_{digest}")], optional=True, **options)


setup(
    ext_modules=[
        compiled(
            "pytest_msdump.metrics._sweep",
            "pytest_msdump/metrics/sweep.c",
            # Nothing here loosens arithmetic: no contraction to fused operations, and no one asks for traps or errno.
            extra_compile_args=["-O3", "-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno", "-Wno-psabi"],
            # The logarithm of Python's own `math`, wherever Python got its from.
            libraries=["m"],
        ),
        compiled("pytest_msdump.reporting._form", "pytest_msdump/reporting/form.c"),
        compiled("pytest_msdump.readers._start", "pytest_msdump/readers/start.c"),
    ]
)
