"""Puts the page together: the style, the program and the data, under a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from pytest_msdump.escape import html_json, html_text
from pytest_msdump.model.report import Report
from pytest_msdump.report.coverage import coverage_problems
from pytest_msdump.report.html.content import content
from pytest_msdump.storage.files import write_file
from pytest_msdump.text import Phrases
from pytest_msdump.text.message import LANGUAGES
from pytest_msdump.text.page import PAGE

__all__ = ["page", "write_html"]

# In the order in which the program reads them; each file is a part of one function, so that nothing becomes global.
_SCRIPTS = ("data", "dom", "widgets", "sentences", "chart", "table", "graph", "spread", "drawer", "sections", "main")


_NO_PROBLEMS: Mapping[str, Sequence[str]] = MappingProxyType({})


def write_html(report: Report, directory: Path) -> Path:
    """Write index.html into `directory` and return its path."""
    return write_file(directory, "index.html", page(report, problems=_problems(report)))


def _problems(report: Report) -> Mapping[str, Sequence[str]]:
    return {language: coverage_problems(report, Phrases(language)) for language in LANGUAGES}


def page(report: Report, *, problems: Mapping[str, Sequence[str]] = _NO_PROBLEMS) -> bytes:
    """Return the page of a report; the same values give the same bytes.

    Parameters
    ----------
    report : Report
        Of one suite.
    problems : mapping of str to sequence of str
        Why the item `coverage` fails, by language.

    Notes
    -----
    Names in a dump are written by whoever made it. They reach the page as JSON alone, in which no ``<`` stands, and the
    page shows them as text; its policy lets only the program and the style run whose digests it names.
    """
    style = _asset("page.css")
    script = '"use strict";\n(function () {\n' + "\n".join(_asset(f"{name}.js") for name in _SCRIPTS) + "\n})();\n"
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    drawn, chinese = content(report, problems=problems)
    data = {"report": drawn, "words": PAGE, "chinese": chinese}
    text = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="pytest-msdump">
<title>msdump: {_named(report)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<main id="page">{_first_paint(report, problems)}</main>
<noscript>The rest of this page is drawn by JavaScript. results.json beside it holds the same for programs.</noscript>
<script type="application/json" id="data">{html_json(data)}</script>
<script>{script}</script>
</body>
</html>
"""
    return text.encode("utf-8", errors="replace")


def _first_paint(report: Report, problems: Mapping[str, Sequence[str]]) -> str:
    """What is seen while the rest is still being read, and where no program may run."""
    failing = any(record.fails for record in report.records)
    word, shade = ("FAIL", "fail") if failing or any(problems.values()) else ("PASS", "pass")
    if word == "PASS" and not report.complete:
        word, shade = "INCOMPLETE", "warn"
    return f'<div class="verdict"><div class="stamp is-{shade}">{word}</div><h1>{_named(report)}</h1></div>'


def _named(report: Report) -> str:
    """Both directories in few words; names are anybody's, so they are escaped."""
    return html_text(" / ".join(Path(side.directory).name for side in (report.left, report.right)))


def _asset(name: str) -> str:
    """A file that ships with the package."""
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """How a policy names what may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
