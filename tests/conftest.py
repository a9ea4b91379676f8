"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

# pytester forgets modules that an inner run imported; NumPy cannot be loaded twice in a process.
import numpy  # noqa: F401 - as above
import pytest

import pytest_msdump.pipeline.asserting_dumps
import pytest_msdump.plugin.collect  # noqa: F401
from pytest_msdump.settings import language_of

pytest_plugins = ["pytester"]

# Texts are held against English ones, whatever the locale of who runs the tests.
if language_of(None, os.environ) == "zh":
    os.environ["LC_ALL"] = "C.UTF-8"


@pytest.fixture(scope="session")
def lenet() -> Path:
    """Real dumps of one small network: a PyTorch reference, a right MindSpore port and two wrong ones."""
    return Path(__file__).parent / "data" / "lenet"
