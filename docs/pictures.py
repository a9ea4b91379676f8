"""Makes the picture of a terminal that the README shows, of what the command prints now: python docs/pictures.py."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
TERMINAL = ROOT / "docs/_static/terminal.svg"
COMMAND = "pytest example_suites/02_failing_on_purpose/msdump.toml::conv2"
WIDTH = 92
_STYLES = {r"FAIL$|^DRIFT": "bold red", r"\bok$": "green", r"^\$.*": "bold"}


def printed(report_dir: Path) -> list[str]:
    """Return the lines of the first failure, from its verdict to what would pass."""
    # pytest prints paths below the project: how long that of the project is changes no line.
    more = ["-p", "no:cacheprovider", f"--msdump-report-dir={report_dir}"]
    words = [sys.executable, "-m", *COMMAND.split(), *more]
    environment = {**os.environ, "COLUMNS": str(WIDTH), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    _, drift, behind = done.stdout.partition("\nDRIFT")
    return (drift + behind[: behind.index("\n====")]).strip().splitlines()


def drawn(lines: list[str]) -> str:
    """Return the picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for line in (f"$ {COMMAND}", *lines):
        text = Text(line)
        for pattern, style in _STYLES.items():
            text.highlight_regex(pattern, style)
        console.print(text, soft_wrap=True, highlight=False)
    svg = console.export_svg(title="pytest", unique_id="terminal")
    # The reader's own fixed font: nothing is fetched.
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code", "ui-monospace")


def lines_of(svg: str) -> list[str]:
    """Return the lines of text that a picture shows."""
    rows: dict[float, str] = {}
    for y, text in re.findall(r'<text class="terminal-r\d+"[^>]* y="([\d.]+)"[^>]*>(.*?)</text>', svg):
        rows[float(y)] = rows.get(float(y), "") + unescape(text).replace("\xa0", " ")
    return [rows[y].rstrip() for y in sorted(rows)]


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        TERMINAL.write_text(drawn(printed(Path(folder))), encoding="utf-8")
