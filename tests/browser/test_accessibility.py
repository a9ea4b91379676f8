"""What a screen reader and the keyboard find on the page: axe-core's rules, and no mouse."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

# Where npm puts it.
AXE = Path(os.environ.get("MSDUMP_AXE", "node_modules/axe-core/axe.min.js"))
OPENED = {
    "overview": "() => {}",
    "drawer": "() => document.querySelector('.grid tbody tr[data-row]').click()",
    "unmatched": "() => document.getElementById('tab-unmatched').click()",
    "rules": "() => document.getElementById('tab-rules').click()",
    "keys": "() => document.dispatchEvent(new KeyboardEvent('keydown', {key: '?'}))",
}


@pytest.fixture(scope="session")
def axe():
    if not AXE.is_file():
        message = f"axe-core is not at {AXE}: npm install axe-core, or name axe.min.js in MSDUMP_AXE"
        if os.environ.get("MSDUMP_BROWSER"):
            pytest.fail(message)
        pytest.skip(message)
    return AXE.read_text("utf-8")


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["causes", "passing", "suspicious", "replayed", "ranks"])
def test_axe_finds_nothing(open_page, axe, name, scheme, locale, width):
    tab = open_page(name, width=width, scheme=scheme, locale=locale)
    tab.evaluate(axe)
    found = []
    for part, opened in OPENED.items():
        tab.evaluate(opened)
        violations = tab.evaluate("async () => (await axe.run()).violations")
        found += [(part, one["id"], node["html"][:150]) for one in violations for node in one["nodes"]]
        tab.keyboard.press("Escape")
    assert found == []


def test_axe_finds_what_is_wrong(open_page, axe):
    tab = open_page("passing")
    tab.evaluate(axe)
    tab.evaluate("() => document.querySelector('.grid tr[data-row]').setAttribute('aria-selected', 'so')")
    assert tab.evaluate("async () => (await axe.run()).violations.map(one => one.id)") == ["aria-valid-attr-value"]
