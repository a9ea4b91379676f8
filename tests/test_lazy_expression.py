"""Our regular expressions are the standard library's in all but when they are compiled."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import pytest_msdump
from pytest_msdump import lazy_expression
from pytest_msdump.lazy_expression import expression

ROOT = Path(pytest_msdump.__file__).parent
USING = sorted(
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    for path in ROOT.rglob("*.py")
    if "lazy_expression import" in path.read_text(encoding="utf-8")
)
METHODS = ("fullmatch", "match", "search", "findall", "sub")


@pytest.mark.parametrize("name", USING)
def test_every_expression_of_the_package_can_be_compiled(name: str) -> None:
    """Whoever writes one that cannot learns it here: to load its module says nothing of it."""
    kept = [*vars(import_module(name)).values()]
    for holder in [one for one in kept if isinstance(one, dict)]:
        kept += holder.values()
    found = [one for one in kept if isinstance(one, lazy_expression._Expression)]
    assert found
    assert all(isinstance(re.compile(one._text, one._flags), re.Pattern) for one in found)


def test_nothing_is_compiled_until_something_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    compile_ = re.compile
    monkeypatch.setattr(re, "compile", lambda *given: (compiled.append(given), compile_(*given))[1])
    one = expression(r"lazily_made_[0-9]+", re.ASCII)
    assert compiled == []
    assert one.fullmatch("lazily_made_1")
    assert one.fullmatch("lazily_made_2")
    assert compiled == [(r"lazily_made_[0-9]+", re.ASCII)]


@pytest.mark.parametrize("flags", [0, re.DOTALL, re.IGNORECASE])
@pytest.mark.parametrize("text", ["a.b", "A\nB", "", "xa.bx", "a_b a_b"])
def test_it_finds_what_the_standard_library_finds(text: str, flags: int) -> None:
    ours, theirs = expression(r"a.(?P<end>b)", flags), re.compile(r"a.(?P<end>b)", flags)
    for method in METHODS:
        given = ("_", text) if method == "sub" else (text,)
        found, wanted = getattr(ours, method)(*given), getattr(theirs, method)(*given)
        assert (found.span() if isinstance(found, re.Match) else found) == (
            wanted.span() if isinstance(wanted, re.Match) else wanted
        )
    assert ours.pattern == theirs.pattern
    assert ours.flags == theirs.flags


def test_what_an_expression_has_not_is_refused_as_by_the_standard_library() -> None:
    with pytest.raises(AttributeError, match="fullmatches"):
        expression("a").fullmatches  # type: ignore[attr-defined]  # noqa: B018 - to be refused
    assert not hasattr(expression("("), "__len__")
    with pytest.raises(re.error, match="unterminated"):
        expression("(").search("a")
