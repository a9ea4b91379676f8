"""Steps of one network, plain and recorded in turns, for `leave_on.py`, which starts this and reads its JSON.

python benchmarks/recorded_steps.py NETWORK THREADS ROUNDS STEPS FOLDER KIND…

Each round of a kind runs so many plain steps, and then as many in one recording. With 0 rounds the steps of the one
kind run once, and `leave_on.py` looks at the peak of the process. A peer's Python needs nothing of this project.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from live_networks import NETWORKS, Network

PLAIN = "plain"
KINDS: dict[str, dict[str, Any]] = {
    "sketch": {"save": "sketch"},
    "sketch+gradients": {"save": "sketch", "gradients": True},
    "full": {"save": "full"},
    "full+gradients+parameters": {"save": "full", "gradients": True, "parameters": True},
}
# Of mindstudio-probe, by task.
PEER_KINDS = {"peer statistics": "statistics", "peer tensor": "tensor"}
# Modules and functions, as its guide has it.
_PEER_LEVEL = "mix"

Step = Callable[[], object]
# Takes a folder, and whether several steps will come; returns what runs one recorded step, and what ends the recording.
Open = Callable[[Path, bool], tuple[Step, Step]]


def main() -> None:
    """Run what the arguments say, and print what was measured as one line of JSON."""
    name, threads, rounds, steps, folder, *kinds = sys.argv[1:]
    if name != "mindspore":
        import torch

        torch.set_num_threads(int(threads))
        torch.manual_seed(0)
    network = NETWORKS[name].make()
    network.step()
    if not int(rounds):
        peak_of(kinds[0], network, int(steps), Path(folder))
        return
    measured = {kind: rounds_of(kind, network, int(rounds), int(steps), Path(folder)) for kind in kinds}
    print(f"\n{json.dumps(measured)}")


def rounds_of(kind: str, network: Network, rounds: int, steps: int, parent: Path) -> dict[str, Any]:
    """Return seconds and CPU seconds of a step of every round, of opening a recording, and what one step leaves."""
    if kind in PEER_KINDS:
        # What it has wrapped stays wrapped: its plain steps come first.
        before = iter([_timed(network.step, steps) for _ in range(rounds)])
    open_recording = _peer(kind, network) if kind in PEER_KINDS else _ours(kind, network)
    # One step alone: so large is a reference of one, and the recorder is warm after it.
    with _folder(parent) as folder:
        step, close = open_recording(folder / "dump", False)
        step()
        close()
        files = [path for path in folder.rglob("*") if path.is_file()]
        one = {"bytes": sum(path.stat().st_size for path in files), "tensors": _tensors(files)}
    plain, opening, recorded = [], [], []
    for _ in range(rounds):
        plain.append(next(before) if kind in PEER_KINDS else _timed(network.step, steps))
        with _folder(parent) as folder:
            start = time.perf_counter()
            step, close = open_recording(folder / "dump", True)
            opening.append(time.perf_counter() - start)
            # What waits to be written when the last step ends belongs to the steps.
            recorded.append(_timed(step, steps, close))
    return {**one, "plain": plain, "opening": opening, "recorded": recorded}


def peak_of(kind: str, network: Network, steps: int, parent: Path) -> None:
    """Run steps of one kind once."""
    if kind == PLAIN:
        _timed(network.step, steps)
        return
    with _folder(parent) as folder:
        open_recording = _peer(kind, network) if kind in PEER_KINDS else _ours(kind, network)
        step, close = open_recording(folder / "dump", True)
        _timed(step, steps, close)


def _timed(step: Step, steps: int, close: Step = lambda: None) -> tuple[float, float]:
    """Return the seconds and the CPU seconds of all threads that a step takes."""
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        step()
    close()
    return (time.perf_counter() - start) / steps, (time.process_time() - cpu) / steps


def _ours(kind: str, network: Network) -> Open:
    from pytest_msdump.record import Recorder

    def opened(folder: Path, several: bool) -> tuple[Step, Step]:
        record = getattr(Recorder(folder.parent), network.record)
        recording = record(network.model, directory=folder, iterations=several, **KINDS[kind])
        recording.__enter__()

        def step() -> None:
            with recording.iteration():
                network.step()

        return step, lambda: recording.__exit__(None, None, None)

    return opened


def _peer(kind: str, network: Network) -> Open:
    from msprobe.pytorch import PrecisionDebugger

    made: list[Any] = []

    def opened(folder: Path, _: bool) -> tuple[Step, Step]:
        task = PEER_KINDS[kind]
        if not made:
            about = {"task": task, "dump_path": str(folder), "rank": [], "step": [], "level": _PEER_LEVEL, task: {}}
            config = folder.parent / "config.json"
            config.write_text(json.dumps(about), "utf-8")
            # There is one a process, with one folder for all its recordings.
            made.append(PrecisionDebugger(config_path=str(config)))
        (debugger,) = made

        def step() -> None:
            debugger.start(network.model)
            network.step()
            debugger.stop()
            debugger.step()

        return step, lambda: None

    return opened


def _tensors(files: list[Path]) -> int:
    """Return how many tensors one step left, by its manifest, or by the peer's description of it."""
    (described,) = (path for path in files if path.name in ("msdump.json", "dump.json"))
    found = json.loads(described.read_text("utf-8"))
    return len(found["tensors"]) if "tensors" in found else sum(1 for one in _values(found["data"]) if "shape" in one)


def _values(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects in a JSON value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield value
    for one in inner:
        yield from _values(one)


@contextmanager
def _folder(parent: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="msdump_recording_", dir=parent) as name:
        yield Path(name)


if __name__ == "__main__":
    main()
