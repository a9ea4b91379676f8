"""What recording a live model costs: steps without and with a recording, taken in turns in one process.

python benchmarks/recording.py                        PyTorch: a small convolutional network and a transformer
python benchmarks/recording.py --framework keras      mindspore, keras and onnx likewise
python benchmarks/recording.py --steps 2              a quick look
python benchmarks/recording.py --graph                what following tensors adds to a recording of ResNet-18
python benchmarks/recording.py --decoder 336          the same and memory of a decoder of 336 or 95 million weights
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from measuring.processes import run
from recorded_models import FRAMEWORKS, Case

MOST_FOR_THE_GRAPH = 1.15
# Millions of weights → layers and width.
DECODERS = {336: (21, 1024), 95: (10, 768)}
# What is recorded, tokens, whether it trains → the most CPU time over that of a plain step.
GOALS: dict[tuple[str, int, bool], float | None] = {
    ("full", 256, False): 1.8,
    ("full, digests=False", 256, False): None,
    ("sketch", 256, False): 1.3,
    ("sketch, digests=False", 256, False): None,
    ("full", 64, False): 2.2,
    ("sketch, gradients", 64, True): 1.6,
    ("full, gradients", 64, True): 2.5,
    ("perturbed, over recorded", 256, False): 1.5,
}
# Of a perturbed recording over a plain one.
MOST_MEMORY = 1.1


def main() -> int:
    """Measure each kind of recording on each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--framework", choices=FRAMEWORKS, default="torch", help="what runs the networks")
    parser.add_argument("--steps", type=int, default=10, help="steps each way (default: 10)")
    parser.add_argument("--graph", action="store_true", help="what the graph of a recording costs; needs torchvision")
    parser.add_argument("--decoder", type=int, choices=DECODERS, metavar="MILLIONS", help="a large model's costs")
    parser.add_argument("--once", choices=("recorded", "perturbed"), help="of the decoder, for its peak of memory")
    parser.add_argument("--dir", type=Path, help="where dumps are written (default: the temporary folder)")
    arguments = parser.parse_args()
    if arguments.graph:
        return graph_cost(arguments.steps, arguments.dir)
    if arguments.decoder and arguments.once:
        return recorded_once(arguments.decoder, arguments.once == "perturbed", arguments.dir)
    if arguments.decoder:
        # First: a child's count of its peak begins with what its parent held when it was started.
        over = perturbed_memory(arguments.decoder, arguments.steps, arguments.dir)
        return decoder_cost(arguments.decoder, arguments.steps, arguments.dir) or over
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


def recorded_once(millions: int, is_perturbed: bool, parent: Path | None) -> int:
    """Record one forward run, for its peak of memory."""
    import torch
    from live_networks import decoder

    from pytest_msdump.record import Perturbation, Recorder

    torch.set_num_threads(1)
    model, perturb = decoder(*DECODERS[millions]), Perturbation(1) if is_perturbed else None
    with (
        tempfile.TemporaryDirectory(prefix="msdump_recording_", dir=parent) as folder,
        torch.no_grad(),
        Recorder(folder).torch(model, directory=f"{folder}/dump", perturb=perturb),
    ):
        model(torch.randint(0, 16000, (1, 256)))
    return 0


def perturbed_memory(millions: int, steps: int, parent: Path | None) -> int:
    """Print the peaks of processes that record and that record perturbed; 1 where the latter needs too much."""
    peaks: dict[str, list[float]] = {"recorded": [], "perturbed": []}
    for _ in range(steps):
        for kind, found in peaks.items():
            command = [sys.executable, __file__, "--decoder", str(millions), "--once", kind]
            command += ["--dir", str(parent.absolute())] if parent else []
            ran = run(command, Path.cwd())
            if ran.exit_code:
                raise SystemExit(ran.said[-2000:])
            found.append(ran.peak_mib)
    plain, perturbed = (statistics.median(found) for found in peaks.values())
    ratio = perturbed / plain
    print(f"peak memory: recorded {plain:.0f} MiB, perturbed {perturbed:.0f} MiB: {ratio:.2f}, goal {MOST_MEMORY}")
    return int(ratio > MOST_MEMORY)


def decoder_cost(millions: int, steps: int, parent: Path | None) -> int:
    """Print the CPU seconds of recordings of one step each, opening and end included, over a plain step."""
    import torch
    from live_networks import decoder

    from pytest_msdump.record import Perturbation, Recorder

    torch.set_num_threads(1)
    layers, width = DECODERS[millions]
    model = decoder(layers, width)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    weights = sum(one.numel() for one in model.parameters()) / 1e6
    print(f"{weights:.0f} M weights, one thread, medians of {steps}, CPU time")
    print(f"{'recorded':<28} {'tokens':>6} {'plain s':>8} {'recorded s':>10} {'ratio':>6} {'goal':>5}")
    over = 0
    for (kind, tokens, trains), goal in GOALS.items():
        options = {"save": kind.split(",")[0].replace("perturbed", "full"), "gradients": "gradients" in kind}
        options["digests"] = "digests=False" not in kind
        words = torch.randint(0, 16000, (1, tokens))

        def step(words: torch.Tensor = words, trains: bool = trains) -> None:
            with torch.set_grad_enabled(trains):
                made = model(words)
                if trains:
                    model.zero_grad()
                    made.logsumexp(-1).mean().backward()
                    optimizer.step()

        def seconds(*, step: Any = step, **options: Any) -> float:
            with tempfile.TemporaryDirectory(prefix="msdump_recording_", dir=parent) as folder:
                start = time.process_time()
                with Recorder(folder).torch(model, directory=f"{folder}/dump", **options) if options else nullcontext():
                    step()
                return time.process_time() - start

        other = options if kind.startswith("perturbed") else {}
        more = {"perturb": Perturbation(1)} if other else {}
        pairs = [(seconds(**other), seconds(**options, **more)) for _ in range(steps + 1)][1:]
        plain, recorded = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(two / one for one, two in pairs)
        over += goal is not None and ratio > goal
        shown = f"{kind}, SGD step" if trains else kind
        print(f"{shown:<28} {tokens:>6} {plain:>8.2f} {recorded:>10.2f} {ratio:>6.2f} {goal or '':>5}", flush=True)
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
