"""What all tests share."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

# pytester forgets modules that an inner run imported; NumPy cannot be loaded twice in a process.
import numpy  # noqa: F401 - as above
import pytest

import pytest_msdump
from pytest_msdump.cli import documents
from pytest_msdump.core.settings.options import language_of

pytest_plugins = ["pytester"]

# The same examples in each run, so that a change alone turns a test red; --hypothesis-profile=default draws others.
# The README's first command alone installs no hypothesis.
with suppress(ModuleNotFoundError):
    from hypothesis import HealthCheck, settings

    # How long a draw takes says how busy the machine is.
    settings.register_profile("repeatable", derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("repeatable")

# Every document that a command prints is held to its schema.
with suppress(ModuleNotFoundError):
    from jsonschema import Draft202012Validator

    _printed = documents._print

    def _print_valid(name: str, command: str | None, code: int, values: Mapping[str, Any]) -> None:
        schema = json.loads((Path(documents.__file__).parent / "schemas" / f"{name}.json").read_text("utf-8"))
        head = {"schema_version": documents.SCHEMA_VERSION, "document": name, "command": command, "exit_code": code}
        Draft202012Validator(schema).validate(json.loads(json.dumps({**head, **values}, allow_nan=False)))
        _printed(name, command, code, values)

    documents._print = _print_valid

# Texts are held against English ones, whatever the locale of who runs the tests.
if language_of(None, os.environ) == "zh":
    os.environ["LC_ALL"] = "C.UTF-8"


@pytest.fixture(scope="session")
def every_module() -> None:
    """Load all of ours: what an inner run loads first, pytester forgets, and it is loaded again with other classes."""
    for module in walk_packages(pytest_msdump.__path__, "pytest_msdump."):
        if not module.name.endswith("__main__"):
            import_module(module.name)


@pytest.fixture
def pytester(every_module: None, pytester: pytest.Pytester) -> pytest.Pytester:  # noqa: ARG001
    """Let no inner run be the first to load a module of ours."""
    return pytester


@pytest.fixture(scope="session")
def lenet() -> Path:
    """Real dumps of one small network: a PyTorch reference, a right MindSpore port and two wrong ones."""
    return Path(__file__).parent / "data" / "lenet"


# How many cases of a parametrised test are not `full`.
CASES = int(os.environ.get("MSDUMP_CASES", "12"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `full` what starts processes, and of a test with many cases all but some that are spread over them."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        if item.get_closest_marker("e2e"):
            item.add_marker("full")
    for group in cases.values():
        kept = {place * len(group) // CASES for place in range(CASES)}
        for place, item in enumerate(group):
            if len(group) > CASES and place not in kept:
                item.add_marker("full")


# Events by which Python says that a process is started.
_STARTS = frozenset({"subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"})
# What a run names by another mark is left out by that one.
_SAYS_SO = ("e2e", "live", "browser", "dask")
_started: set[str] = set()
sys.addaudithook(lambda event, _: _started.add(event) if event in _STARTS else None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Forget what earlier tests started."""
    _started.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that starts a process without saying so: runs that leave out `e2e` are to stay quick."""
    yield
    # A run of some marks only is not the one that holds tests to their marks.
    checked = not item.config.getoption("markexpr")
    if _started and checked and not any(item.get_closest_marker(name) for name in _SAYS_SO):
        pytest.fail(f"this test starts a process ({', '.join(sorted(_started))}): mark it with pytest.mark.e2e")
