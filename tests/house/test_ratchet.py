"""Figures without noise only fall; see ratchet.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from house import ratchet
from house.ratchet import ROOT, complaints

ALLOWED = {"lines": {"most": 1000}, "calls": {"most": 300, "why": "a metric more"}}


@pytest.mark.e2e
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="calls are counted on one Python alone")
def test_no_figure_rose_and_what_fell_is_written_down() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tests/house/ratchet.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        ({"lines": 1000, "calls": 299}, []),
        ({"lines": 1001, "calls": 300}, ["lines: 1,001 are more than 1,000; lower it, or --write --why TEXT"]),
        ({"lines": 989, "calls": 300}, ["lines: 989 are less than 1,000; --write holds that"]),
        ({"lines": 1000}, ["calls: only one of ratchet.toml and ratchet.py has it"]),
    ],
)
def test_what_rises_and_what_falls_unnoticed_is_said(measured: dict[str, int], said: list[str]) -> None:
    assert complaints(measured, ALLOWED) == said


@pytest.mark.parametrize(("calls", "rose"), [(1004, False), (1006, True)])
def test_calls_may_differ_from_machine_to_machine_by_little(calls: int, rose: bool) -> None:
    assert bool(complaints({"calls_per_tiny_pair": calls}, {"calls_per_tiny_pair": {"most": 1000}})) is rose


@pytest.mark.parametrize(
    ("why", "refused", "rows"),
    [
        (None, ["lines"], "[lines]\nmost = 1000\n\n[calls]\nmost = 200\n"),
        ("a format", [], '[lines]\nmost = 1500\nwhy = "a format"\n\n[calls]\nmost = 200\n'),
    ],
)
def test_a_figure_is_raised_with_a_reason_alone(
    why: str | None, refused: list[str], rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ratchet, "LIMITS", tmp_path / "ratchet.toml")
    assert ratchet.write({"lines": 1500, "calls": 200}, ALLOWED, why) == refused
    assert ratchet.LIMITS.read_text("utf-8") == rows
