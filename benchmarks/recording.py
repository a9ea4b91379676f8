"""What recording a live model costs: steps without and with a recording, taken in turns in one process.

python benchmarks/recording.py                        PyTorch: a small convolutional network and a transformer
python benchmarks/recording.py --framework keras      mindspore, keras and onnx likewise
python benchmarks/recording.py --steps 2              a quick look
python benchmarks/recording.py --graph                what following tensors adds to a recording of ResNet-18
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from recorded_models import FRAMEWORKS, Case

MOST_FOR_THE_GRAPH = 1.15


def main() -> int:
    """Measure each kind of recording on each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--framework", choices=FRAMEWORKS, default="torch", help="what runs the networks")
    parser.add_argument("--steps", type=int, default=10, help="steps each way (default: 10)")
    parser.add_argument("--graph", action="store_true", help="what the graph of a recording costs; needs torchvision")
    parser.add_argument("--dir", type=Path, help="where dumps are written (default: the temporary folder)")
    arguments = parser.parse_args()
    if arguments.graph:
        return graph_cost(arguments.steps, arguments.dir)
    title, cases = FRAMEWORKS[arguments.framework]()
    print(f"{title}, medians of {arguments.steps} steps")
    print(
        f"{'network':<12} {'recorded':<20} {'plain ms':>9} {'recorded ms':>12} {'ratio':>6} {'files':>6} {'MiB':>6}"
        f" {'MiB/s':>6}"
    )
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="msdump_recording_", dir=arguments.dir) as folder:
            plain, recorded = measured(case, Path(folder), arguments.steps)
            files = [*(Path(folder) / "0").rglob("*.npy")]
            size = sum(path.stat().st_size for path in files) / 2**20
        # What was written in the time that the recording took beside the step itself.
        rate = f"{size / (recorded - plain):.0f}" if recorded > plain else "-"
        print(
            f"{case.network:<12} {case.kind:<20} {plain * 1e3:>9.1f} {recorded * 1e3:>12.1f} {recorded / plain:>6.2f}"
            f" {len(files):>6} {size:>6.1f} {rate:>6}",
            flush=True,
        )
    return 0


def measured(case: Case, folder: Path, steps: int) -> tuple[float, float]:
    """Return the medians of the seconds of a step without and with a recording, its start and its end included."""
    case.step(None, case.kind)
    plain, recorded = [], []
    for number in range(steps):
        start = time.perf_counter()
        case.step(None, case.kind)
        middle = time.perf_counter()
        with case.recording(folder / str(number)) as recording:
            case.step(recording, case.kind)
        plain.append(middle - start)
        recorded.append(time.perf_counter() - middle)
    return statistics.median(plain), statistics.median(recorded)


def graph_cost(steps: int, parent: Path | None) -> int:
    """Print the CPU seconds of a recording without and with its graph; 1 where the graph adds more than is allowed."""
    import torch
    from live_networks import resnet18

    from pytest_msdump.record import Recorder

    torch.set_num_threads(1)
    model, images = resnet18().eval(), torch.randn(4, 3, 224, 224)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(steps + 1):
        for graph, found in seconds.items():
            with tempfile.TemporaryDirectory(prefix="msdump_recording_", dir=parent) as folder:
                start = time.process_time()
                with torch.no_grad(), Recorder(folder).torch(model, directory=f"{folder}/dump", graph=graph):
                    model(images)
                found.append(time.process_time() - start)
    # The first of each warms up.
    without, with_graph = (statistics.median(found[1:]) for found in seconds.values())
    ratio = with_graph / without
    print(f"ResNet-18, batch 4, 224 px, one thread, medians of {steps} recordings, CPU time")
    print(
        f"without the graph {without * 1e3:.0f} ms, with it {with_graph * 1e3:.0f} ms: {ratio - 1:+.1%}, allowed +15%"
    )
    return 1 if ratio > MOST_FOR_THE_GRAPH else 0


if __name__ == "__main__":
    sys.exit(main())
