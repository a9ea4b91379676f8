"""Make dumps of ports and the truth about them.

python benchmarks/ports/make.py OUT                       every case
python benchmarks/ports/make.py OUT --only onnx-resnet18  those whose name begins so
python benchmarks/ports/make.py OUT --sample              a part that takes three minutes at most
python benchmarks/ports/make.py OUT --perturbed           the references once more, perturbed, into CASE/perturbed
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from cases import Case
from truth import make_truth, tensors_of

# A few cases of each kind, and the first ports of these.
SAMPLE = (
    "onnx-resnet18-dynamo",
    "onnx-resnet18-legacy",
    "onnx-vit-dynamo",
    "mindcv-resnet18",
    "transformers-llama",
    "training-sgd",
    "keras-from-torch",
)
SAMPLE_PORTS = 4


# Where cases begin with → module and function that yield them; each imports its frameworks.
FAMILIES = {
    "onnx-": ("onnx_ports", "onnx_cases"),
    "mindcv-": ("mindcv_ports", "mindcv_cases"),
    "transformers-": ("transformers_ports", "transformers_cases"),
    "training-": ("training_ports", "training_cases"),
    "keras-": ("keras_ports", "keras_cases"),
}


def cases(only: Sequence[str]) -> Iterator[Case]:
    """Yield the cases whose name holds one of these parts; all of them without."""
    for start, (module, function) in FAMILIES.items():
        if not only or any(part.startswith(start) or start.startswith(part) for part in only):
            for case in getattr(import_module(module), function)():
                if not only or any(case.name.startswith(part) for part in only):
                    yield case


def main() -> int:
    """Make the cases that were asked for; return 1 when one could not be made."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "out", type=Path, metavar="OUT", help="folder of the dumps; what it holds of a case is replaced"
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="cases whose name begins so")
    parser.add_argument("--sample", action="store_true", help="a few cases, and few mistakes of each")
    parser.add_argument("--perturbed", action="store_true", help="only the references, perturbed, beside what is there")
    arguments = parser.parse_args()
    for case in cases(SAMPLE if arguments.sample else arguments.only):
        start = time.perf_counter()
        folder = arguments.out / case.name
        if arguments.perturbed:
            perturb(case, folder / "perturbed")
            print(f"{case.name}: perturbed in {time.perf_counter() - start:.0f} s", flush=True)
            continue
        shutil.rmtree(folder, ignore_errors=True)
        count = make(case, folder, SAMPLE_PORTS if arguments.sample else None)
        print(f"{case.name}: {count} ports in {time.perf_counter() - start:.0f} s", flush=True)
    return 0


def perturb(case: Case, folder: Path) -> None:
    """Record a case's reference once more, its inputs and weights perturbed by a rounding unit."""
    from pytest_msdump.capabilities.record.variation import Perturbation

    shutil.rmtree(folder, ignore_errors=True)
    case.reference(folder, perturb=Perturbation(1))


def make(case: Case, folder: Path, most: int | None = None) -> int:
    """Record a case's reference and its ports, at most so many; return how many."""
    case.reference(folder / "right")
    (folder / "case.json").write_text(json.dumps({"suite": case.suite}) + "\n", encoding="utf-8")
    right = tensors_of(folder / "right", to_nchw=case.right_is_nhwc)
    truth = None
    ports = case.ports[:most]
    for port in ports:
        renamed, causes = port.record(folder / port.name / "left", truth)
        left = tensors_of(folder / port.name / "left", to_nchw=case.left_is_nhwc)
        if truth is None or renamed is None:
            found = truth = make_truth(case.name, left, right, case.meant)
            print(
                f"{case.name}: {len(truth.pairs)} right tensors exist on the left, {len(truth.absent)} do not, "
                f"{len(truth.unjudged_right)} are not judged",
                flush=True,
            )
        else:
            found = renamed.of_port(port.name, port.title, left, right, causes)
        found.write(folder / port.name / "truth.json")
    return len(ports)


if __name__ == "__main__":
    sys.exit(main())
