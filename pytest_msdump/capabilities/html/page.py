"""Puts the page together: the style, the program and the data, under a policy that lets nothing else in."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from pytest_msdump.capabilities.html.added import STYLE, sections
from pytest_msdump.capabilities.html.content import content
from pytest_msdump.capabilities.html.words import PAGE
from pytest_msdump.core.escape import html_json, html_text
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.report.base import ReportKind
from pytest_msdump.core.report.coverage import coverage_problems
from pytest_msdump.core.storage.files import write_file

# In the order in which the program reads them; each file is a part of one function, so that nothing becomes global.
_SCRIPTS = (
    *("data", "dom", "widgets", "sentences", "chart", "table"),
    *("graph", "spread", "drawer", "steps", "sections", "main"),
)


class HtmlReport(ReportKind):
    """``html``: index.html."""

    name, file = "html", "index.html"

    def write(self, report: Report, directory: Path) -> Path:
        """Write index.html into `directory`."""
        return write_file(directory, self.file, page(report))


def write_together(reports: Mapping[str, Report], directory: Path) -> Path:
    """Write all.html, one page of several reports by name, into `directory` and return its path."""
    return write_file(directory, "all.html", page(*reports.values(), names=tuple(reports)))


def page(*reports: Report, names: Sequence[str] = ()) -> bytes:
    """Return the page of a report, or of several with their names; the same values give the same bytes."""
    # Names in a dump may be hostile: they reach the page as JSON without any "<" and are shown as text, and its policy
    # allows only the program and the style with these digests.
    added = "".join(section for number, report in enumerate(reports) for section in sections(report, number))
    style = _asset("page.css") + (STYLE if added else "")
    script = '"use strict";\n(function () {\n' + "\n".join(_asset(f"{name}.js") for name in _SCRIPTS) + "\n})();\n"
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    drawn = [content(report) for report in reports]
    chinese = {english: sentence for _, sentences in drawn for english, sentence in sentences.items()}
    first, *others = (one for one, _ in drawn)
    sides = (Path(side.directory).name for side in (reports[0].left, reports[0].right))
    title = html_text(" / ".join(names or sides))
    data = {"report": first, "others": others, "names": names, "words": PAGE, "chinese": chinese}
    text = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="pytest-msdump">
<title>msdump: {title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<main id="page">{_first_paint(reports, title)}</main>{added}
<noscript>The rest of this page is drawn by JavaScript. results.json of the run holds the same for programs.</noscript>
<script type="application/json" id="data">{html_json(data)}</script>
<script>{script}</script>
</body>
</html>
"""
    return text.encode("utf-8", errors="replace")


def _first_paint(reports: Sequence[Report], title: str) -> str:
    """Return what is seen while the rest is still being read, and where no program may run."""
    failing = any(record.fails for report in reports for record in report.records) or any(
        map(coverage_problems, reports)
    )
    word, shade = ("FAIL", "fail") if failing else ("PASS", "pass")
    if word == "PASS" and not all(report.complete for report in reports):
        word, shade = "INCOMPLETE", "warn"
    return f'<div class="verdict"><div class="stamp is-{shade}">{word}</div><h1>{title}</h1></div>'


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the digest by which a policy allows a program or a style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
