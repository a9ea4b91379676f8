"""The benchmark of decoders passes sound runs of a small Llama, and finds its mistakes and their first wrong token.

Needs PyTorch and transformers.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from docs_pages import ROOT

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.live


def test_a_small_llama_passes_in_sound_ways_and_fails_with_each_mistake() -> None:
    command = [sys.executable, "-m", "benchmarks.generation", "--seeds", "1", "--models", "llama", "--tokens", "8"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    sound, mistakes = (list(map(int, row.split())) for row in re.findall(r"^all +(.*)$", ran.stdout, re.MULTILINE))
    # Runs, their prompts, of these failing and with another first token; runs, found, with another token, exact.
    assert sound == [10, 57, 0, 0]
    runs, found, _, exact = mistakes
    assert runs == found == exact == 15
