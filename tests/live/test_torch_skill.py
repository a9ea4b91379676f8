"""What SKILL.md tells a program to type leads from two programs to the wrong lines. Needs PyTorch."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from docs_pages import ROOT, blocks, run

pytest.importorskip("torch")
pytestmark = pytest.mark.live

SKILL = ROOT / "SKILL.md"
NET = (Path(__file__).parent / "nets/small_decoder.py").read_text("utf-8")
# What is typed instead → what the mistake is.
MISTAKES = {
    "scale": ("/ (n // self.heads) ** 0.5", "/ n**0.5"),
    "mask": ("triu(1)", "triu(2)"),
    "residual": ("x = x + self.attention(self.norm1(x))", "x = self.attention(self.norm1(x))"),
}
MOST_CALLS = 8


def commands() -> list[str]:
    return [command.text for block in blocks(SKILL) if block.note != "file" for command in block.commands()]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_commands_lead_to_the_wrong_lines(mistake: str, tmp_path: Path) -> None:
    right, wrong = MISTAKES[mistake]
    assert NET.count(right) == 1
    (tmp_path / "net.py").write_text(NET, "utf-8")
    (tmp_path / "port.py").write_text(NET.replace(right, wrong), "utf-8")
    number = next(at for at, line in enumerate(NET.splitlines(), 1) if right in line)
    (script,) = (block for block in blocks(SKILL) if block.note == "file")
    (tmp_path / script.value).write_text(script.text, "utf-8")
    typed = commands()
    assert len(typed) <= MOST_CALLS
    calls, found = 0, None
    for text in typed:
        code, printed = run(text, tmp_path, tmp_path)
        calls += 1
        assert code in (0, 1), printed
        if not text.startswith("msdump"):
            continue
        document = json.loads("\n".join(printed))
        assert document["exit_code"] == code
        if text == "msdump compare run reference --json":
            assert (document["verdict"], len(document["causes"]), document["more_causes"]) == ("fail", 1, 0)
            found = re.fullmatch(r"port\.py:(\d+)-(\d+)", document["causes"][0]["lines"])
            assert calls <= MOST_CALLS
    assert found is not None
    first, last = map(int, found.groups())
    assert first <= number <= last
    # A few lines, not a file.
    assert last - first <= 6


def test_the_page_is_short_enough_to_be_read_each_time() -> None:
    assert len(SKILL.read_text("utf-8").splitlines()) <= 120
