"""Every example in a docstring prints what it says."""

import doctest
from importlib import import_module
from pkgutil import walk_packages

import pytest_msdump

NAMES = sorted(
    info.name for info in walk_packages(pytest_msdump.__path__, "pytest_msdump.") if not info.name.endswith("__main__")
)


def test_examples_are_real():
    assert [name for name in NAMES if doctest.testmod(import_module(name)).failed] == []


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = sum(len(test.examples) for name in NAMES for test in finder.find(import_module(name)))
    assert examples > 30
