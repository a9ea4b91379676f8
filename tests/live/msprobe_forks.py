"""Runs that msprobe dumps, each in a fork of a process that has imported its framework: one process has one debugger.

A run's name is LEVEL_TASK[_SUMMARY][_wrong], e.g. ``mix_tensor_wrong``; wrong is a GELU of the second block that is
approximated. What the network itself saw lies beside the tree, as ``NAME.RANK.npz``, by ``STEP/ADDRESS/CALL``.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


class Run:
    """One process of a run: its configuration, and what was seen in it."""

    def __init__(self, folder: Path, name: str, rank: int) -> None:
        self.folder, self.name, self.rank, self.step = folder, name, rank, 0
        self.level, self.task, *rest = name.split("_")
        self.is_wrong = "wrong" in rest
        summary = next((one for one in rest if one != "wrong"), "statistics")
        own = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": summary}
        values = {"task": self.task, "dump_path": str(folder / name), "rank": [], "step": [], "level": self.level}
        self.config = folder / f"{name}.{rank}.json"
        self.config.write_text(json.dumps({**values, self.task: own}))
        self._seen: dict[str, np.ndarray] = {}
        self._calls: dict[tuple[int, str], int] = {}

    def saw(self, address: str, value: np.ndarray) -> None:
        """Keep a tensor of this step; of an address that was seen before it is the next call's."""
        call = self._calls[self.step, address] = self._calls.get((self.step, address), -1) + 1
        self._seen[f"{self.step}/{address}/{call}"] = value.copy()

    def hooks(self, path: str, array: Callable[[Any], np.ndarray]) -> tuple[Callable[..., None], Callable[..., None]]:
        """Return the forward and the backward hook of a module, which keep what it takes and gives."""

        def forward(_: Any, given: Any, result: Any) -> None:
            self.saw(f"{path}:input:0", array(given[0]))
            self.saw(f"{path}:output:0", array(result))

        def backward(_: Any, inputs: Any, outputs: Any) -> None:
            self.saw(f"{path}/grad_output:output:0", array(outputs[0]))
            self.saw(f"{path}/grad_input:output:0", array(inputs[0]))

        return forward, backward

    def end(self) -> None:
        """Write what was seen."""
        np.savez(self.folder / f"{self.name}.{self.rank}.npz", **self._seen)


def start(run: Callable[[Run], None], words: Sequence[str], ranks: int) -> int:
    """Fork each rank of each run, one run after another; return how many processes failed."""
    failed = 0
    for name in words[1:]:
        started = []
        for rank in range(ranks):
            process = os.fork()
            if not process:
                code = 1
                try:
                    one = Run(Path(words[0]), name, rank)
                    run(one)
                    one.end()
                    code = 0
                except BaseException:
                    traceback.print_exc()
                sys.stdout.flush()
                os._exit(code)
            started.append(process)
        failed += sum(os.waitpid(process, 0)[1] != 0 for process in started)
    return failed
