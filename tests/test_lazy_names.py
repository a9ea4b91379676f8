"""Public names of packages are loaded when they are first used, and only then."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

PACKAGES = ("pytest_msdump", "pytest_msdump.record", "pytest_msdump.core.matching", "pytest_msdump.core.suite")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of one name, whose module counts how often it is asked for it."""
    folder = tmp_path / "lazily_made"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from pytest_msdump.core.lazy_names import lazy_names\nbeside = 1\n"
        "__getattr__, __dir__ = lazy_names(__name__, {'thing': 'lazily_made.home', 'absent': 'lazily_made.home'})\n",
        "utf-8",
    )
    (folder / "home.py").write_text(
        "asked = []\ndef __getattr__(name):\n    if name != 'thing': raise AttributeError(f'home has no {name}')\n"
        "    asked.append(name)\n    return object()\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "lazily_made"
    for name in [name for name in sys.modules if name.split(".")[0] == "lazily_made"]:
        del sys.modules[name]


def test_a_name_is_looked_up_once_and_not_before_it_is_used(package):
    made = import_module(package)
    assert f"{package}.home" not in sys.modules
    assert dir(made) == sorted({*vars(made), "thing", "absent"})
    assert {"beside", "thing"} <= set(dir(made))
    assert f"{package}.home" not in sys.modules
    assert made.thing is made.thing
    assert vars(made)["thing"] is made.thing
    assert sys.modules[f"{package}.home"].asked == ["thing"]
    assert dir(made).count("thing") == 1


def test_another_name_is_refused_in_pythons_own_words(package):
    made = import_module(package)
    with pytest.raises(AttributeError) as refused:
        _ = made.other
    with pytest.raises(AttributeError) as pythons:
        _ = sys.other
    assert str(refused.value) == str(pythons.value).replace("sys", package)
    with pytest.raises(ImportError, match="cannot import name 'other'"):
        exec(f"from {package} import other")


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_of_a_package_is_there(name):
    made = import_module(name)
    assert set(made.__all__) <= set(dir(made))
    for public in made.__all__:
        found = getattr(made, public)
        if not hasattr(found, "__module__"):  # a constant does not say where it is from
            continue
        assert found is getattr(import_module(found.__module__), public)
