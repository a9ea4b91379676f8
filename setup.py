"""What is compiled, where there is a compiler; everything else is in pyproject.toml."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "pytest_msdump.metrics._sweep",
            ["pytest_msdump/metrics/sweep.c"],
            # Nothing here loosens arithmetic: no contraction to fused operations, and no one asks for traps or errno.
            extra_compile_args=["-O3", "-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno", "-Wno-psabi"],
            # The logarithm of Python's own `math`, wherever Python got its from.
            libraries=["m"],
            # numpy does the same work where this cannot be built.
            optional=True,
        ),
        # Python does the same work where this cannot be built.
        Extension("pytest_msdump.reporting._form", ["pytest_msdump/reporting/form.c"], optional=True),
    ]
)
