"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

# pytester forgets modules that an inner run imported; NumPy cannot be loaded twice in a process.
import pytest_msdump.pipeline.asserting
import pytest_msdump.plugin.collect  # noqa: F401

pytest_plugins = ["pytester"]


@pytest.fixture(scope="session")
def lenet() -> Path:
    """Real dumps of one small network: a PyTorch reference, a right MindSpore port and two wrong ones."""
    return Path(__file__).parent / "data" / "lenet"
