"""The page on recording PyTorch does what it says. Needs PyTorch."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from docs_pages import ROOT, follow_live, options_of

pytest.importorskip("torch")
pytestmark = pytest.mark.live

PAGE = ROOT / "docs/howto/record_a_pytorch_model.md"
LEFT_ON = ROOT / "docs/howto/leave_recording_on.md"
HOOKS = ROOT / "docs/howto/a_dump_written_with_hooks.md"
SERVING = ROOT / "docs/howto/serving_engine_against_hugging_face.md"
LIMITS = ROOT / "docs/howto/limits_from_one_extra_run.md"
PREFILL = ROOT / "docs/howto/prefill_and_decode.md"
DECODER = ROOT / "docs/tutorial/is_my_decoder_right.md"


def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    assert follow_live(PAGE, {"torch"}, tmp_path, tmp_path) == 5


def test_dumps_of_two_writers_compare_as_the_page_shows(tmp_path: Path) -> None:
    assert follow_live(HOOKS, {"torch"}, tmp_path, tmp_path) == 2


def test_recordings_that_stay_on_print_what_the_page_shows(tmp_path: Path) -> None:
    assert follow_live(LEFT_ON, {"torch"}, tmp_path, tmp_path) == 1


def test_limits_from_one_extra_run_find_what_the_page_shows(tmp_path: Path) -> None:
    assert follow_live(LIMITS, {"torch"}, tmp_path, tmp_path) == 6


def test_a_serving_engine_meets_what_the_page_shows(tmp_path: Path) -> None:
    assert follow_live(SERVING, {"torch"}, tmp_path, tmp_path) == 4


def test_prefill_and_decode_meet_one_pass_as_the_page_shows(tmp_path: Path) -> None:
    assert follow_live(PREFILL, {"torch"}, tmp_path, tmp_path) == 5


def test_every_option_of_the_page_exists() -> None:
    from pytest_msdump.capabilities.record.torch import TorchRecording

    named = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert named == {*options_of(TorchRecording)}


def test_two_decoders_say_what_the_tutorial_shows(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    packages = {"torch"}
    if mindspore := os.environ.get("MSDUMP_MINDSPORE_PYTHON"):
        # An environment of its own, as the page names it.
        (tmp_path / "ms").symlink_to(Path(mindspore).parents[1])
        packages.add("mindspore")
    assert follow_live(DECODER, packages, tmp_path, tmp_path) == 5 + len(packages)
