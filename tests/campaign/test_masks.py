"""A sample of what ``python tests/campaign/masks.py`` tries."""

from __future__ import annotations

import pytest
from campaign import masks

from pytest_msdump.core.metrics import measure as loop


def test_wrong_elements_beside_a_mask_fail_and_sound_ones_pass() -> None:
    told: list[str] = []
    found = masks.run_masks(60, 7, tell=told.append)
    assert not told
    assert found["wrong"] > 15
    assert found["sound"] > 15


def test_sound_residual_streams_with_outliers_pass() -> None:
    told: list[str] = []
    found = masks.run_streams(25, 7, tell=told.append)
    assert not told
    assert found["with a note"] > 10


def test_without_the_others_alone_wrong_elements_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "find_gaps", lambda *_: [])
    assert masks.run_masks(60, 7, tell=lambda _: None)["missed"] > 3
