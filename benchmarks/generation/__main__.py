"""Runs every model in sound ways and with mistakes against itself, and prints what the profile says of each."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

from benchmarks.generation.decoders import VOCABULARY, decoder, mistakes, models, sound
from pytest_msdump import assert_dumps_close
from pytest_msdump.capabilities.generation.prompts import Generations, judged_by, write_both

VERBOSE = "--verbose" in __import__("sys").argv


def _verdict(left: Any, right: Any, prompts: list[list[int]], how: Generations) -> tuple[bool, str]:
    folder = Path(mkdtemp())
    try:
        write_both(folder / "both", (left, right), ("left", "right"), prompts, how)
        assert_dumps_close(folder / "both/left", folder / "both/right", **judged_by())
    except AssertionError as error:
        return False, "\n".join(str(error).splitlines()[:60]) if VERBOSE else str(error).splitlines()[0]
    finally:
        shutil.rmtree(folder)
    return True, ""


def main() -> None:
    """Print failing sound runs and passing mistakes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=12)
    parsed = parser.parse_args()
    alarms = runs = found = wrong = 0
    for seed in range(parsed.seeds):
        rng = np.random.default_rng(seed)
        prompts = [rng.integers(1, VOCABULARY, int(length)).tolist() for length in (3, 9, 17)]
        for name, model in models(seed).items():
            reference = decoder(model)
            for way, left in sound(model).items():
                how = Generations(parsed.tokens, is_batched=way not in ("no cache", "float64"))
                passes, why = _verdict(left, reference, prompts, how)
                runs, alarms = runs + 1, alarms + (not passes)
                if not passes:
                    print(f"alarm: {name} {way} (seed {seed}): {why}")
            for way, left in mistakes(model).items():
                passes, _ = _verdict(left, reference, prompts, Generations(parsed.tokens))
                wrong, found = wrong + 1, found + (not passes)
                if passes:
                    print(f"missed: {name} {way} (seed {seed})")
    print(f"sound runs that fail: {alarms} of {runs}; mistakes found: {found} of {wrong}")


if __name__ == "__main__":
    main()
