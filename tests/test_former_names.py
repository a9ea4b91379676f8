"""Modules are found by the names that they had before, and none is loaded a second time."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import pytest

from pytest_msdump.former_names import ELSEWHERE, JOINED


@pytest.mark.parametrize("now", sorted({*JOINED.values(), *ELSEWHERE.values()}))
def test_what_a_former_name_stands_for_is_there(now: str) -> None:
    assert find_spec(f"pytest_msdump.{now}") is not None


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ("replay.operators.definition", "capabilities.kernels.operators.definition"),
        ("capabilities.replay.operators.definition", "capabilities.kernels.operators.definition"),
        ("replay.kernels", "capabilities.kernels.again"),
        ("capabilities.replay.kernels", "capabilities.kernels.again"),
        ("capabilities.replay.fused", "capabilities.kernels.fused"),
        ("replay.conformance", "capabilities.kernels.conformance"),
        ("replay.forcing", "capabilities.replay.forcing"),
        ("dumps.base", "core.dumps.base"),
        ("dumps.npz", "capabilities.tensor_files.npz"),
        ("core.dumps.npz", "capabilities.tensor_files.npz"),
        ("comparison.planning", "core.compare.planning"),
        ("record.process", "capabilities.record.process"),
    ],
)
def test_a_module_under_its_former_name_is_the_same(former: str, now: str) -> None:
    assert import_module(f"pytest_msdump.{former}") is import_module(f"pytest_msdump.{now}")


@pytest.mark.parametrize(
    ("former", "now"),
    [("capabilities.replay.operators", "capabilities.kernels.operators"), ("matching", "core.matching")],
)
def test_a_package_under_its_former_name_has_the_same(former: str, now: str) -> None:
    package, same = import_module(f"pytest_msdump.{former}"), import_module(f"pytest_msdump.{now}")
    # pytest adds names of its own where it rewrites assertions.
    names = [name for name in dir(same) if name.isidentifier() and not name.startswith("__")]
    assert {name: getattr(package, name) for name in names} == {name: getattr(same, name) for name in names}
    assert set(dir(package)) >= set(names)


@pytest.mark.parametrize("name", ["replay.nothing", "capabilities.nothing", "capabilities.replay.nothing", "nothing"])
def test_what_never_was_is_not_found(name: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module(f"pytest_msdump.{name}")
