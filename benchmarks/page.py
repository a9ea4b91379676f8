"""Measure the page of many tensors in a real browser: first paint, drawing the network, sorting and filtering.

``python benchmarks/page.py [TENSORS]``; needs Chromium and the package playwright. A fifth of the tensors fails. Each
figure is the median of five.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
# The page is made of the results that the tests use.
sys.path.insert(0, str(ROOT / "tests"))

from report.big_results import results  # noqa: E402

from pytest_msdump.capabilities.html.page import page  # noqa: E402
from pytest_msdump.core.report.json_report import report_from  # noqa: E402

RUNS = 5
# Of 10,000 tensors: from the address to the last row that is drawn, and the file.
MOST_MS, MOST_MB = 2000, 3.0
PAINT = """() => new Promise(done => {
    const look = () => {
        const [found] = performance.getEntriesByName('first-contentful-paint');
        if (found) done(found.startTime); else setTimeout(look, 20);
    };
    look();
})"""
DRAWN = """() => new Promise(done => {
    const look = () => document.querySelector('.grid tbody tr') ? done(performance.now()) : setTimeout(look, 5);
    look();
})"""
SINCE = "performance.now() - start"
SEARCH = "box => { box.value = 'residualblock conv2d'; box.dispatchEvent(new Event('input')); }"
ACTS = {
    "open or fold a scope": "document.querySelector('#graph .node[data-scope]').dispatchEvent(new Event('click'))",
    "sort": "document.querySelector('[data-sort=max_absolute_error]').click()",
    "search": f"({SEARCH})(document.getElementById('search'))",
}


def measure(tab: Any, address: str) -> dict[str, float]:
    """Load the page once and return milliseconds by what was done."""
    tab.goto(address)
    found = {"first paint": tab.evaluate(PAINT), "all drawn": tab.evaluate(DRAWN)}
    tab.wait_for_selector("#graph .node")
    for name, act in ACTS.items():
        timed = f"() => {{ const start = performance.now(); {act}; document.body.offsetHeight; return {SINCE}; }}"
        found[name] = tab.evaluate(timed)
    return found


def main() -> None:
    """Make the page, open it some times, print the medians."""
    from playwright.sync_api import sync_playwright

    tensors = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        file = Path(folder) / "index.html"
        file.write_bytes(page(report_from(results(tensors, roles=True, failing=0.2))))
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        runs = [measure(browser.new_page(), file.as_uri()) for _ in range(RUNS)]
        browser.close()
        megabytes = file.stat().st_size / 1e6
    print(f"{tensors} tensors, {megabytes:.2f} MB{_kept(megabytes, MOST_MB)}")
    for name in runs[0]:
        found = median(run[name] for run in runs)
        print(f"{name:<22}{found:8.0f} ms{_kept(found, MOST_MS) if name == 'all drawn' else ''}")


def _kept(found: float, most: float) -> str:
    return f"  {'ok' if found <= most else 'over'} (≤ {most:g})"


if __name__ == "__main__":
    main()
