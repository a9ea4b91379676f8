"""Replay the references of benchmarks/ports with the tensors of their ports: which modules are accused, and are wrong.

python benchmarks/replay.py OUT                       every port below OUT whose reference is a PyTorch model
python benchmarks/replay.py OUT --only vit --halves 20  a random half of the pairs left out, 20 times
python benchmarks/replay.py OUT --suggest             nothing is paired: are the partners right that it suggests?
python benchmarks/replay.py OUT --half bert           ports of a network of rounding/networks.py in 16 bits; OUT is new
python benchmarks/replay.py OUT --sound 120         sound runs in 16 bits in every way, and 120 mistakes; OUT is new
python benchmarks/replay.py OUT --cost resnet18       what a replay of a network of live_networks.py costs; OUT is new
python benchmarks/replay.py OUT --cost decoder336     the same of a decoder of 336 million weights

OUT is what benchmarks/ports/make.py was given. The exit code is 1 when a correct port is accused, a right module is, or
fewer mistakes than --least are named.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "ports"))

import rounding.networks  # noqa: E402
import torch  # noqa: E402
from live_networks import NETWORKS, decoder  # noqa: E402
from models import TIMM, TORCHVISION, declare_nms, images, randomise, seeded  # noqa: E402
from recording import DECODERS  # noqa: E402
from rounding.half import half_lines  # noqa: E402
from rounding.sound import sound_lines  # noqa: E402
from truth import Cause, Truth, read_truth, spelled  # noqa: E402

from pytest_msdump.capabilities.record.torch import TorchRecording  # noqa: E402
from pytest_msdump.capabilities.replay.pairing import suggest_with  # noqa: E402
from pytest_msdump.capabilities.replay.reference_model import Reference, reference_of, replay_plan  # noqa: E402
from pytest_msdump.core.compare.planning import Plan, plan  # noqa: E402
from pytest_msdump.core.model.dump import PARAMETER  # noqa: E402
from pytest_msdump.core.model.record import Local, Record  # noqa: E402
from pytest_msdump.core.model.tensor import Pair  # noqa: E402
from pytest_msdump.core.report.build import build_report, compare_plan  # noqa: E402
from pytest_msdump.core.suite import load_suite  # noqa: E402

# Tensors that a mistake has reached, by their relative Euclidean distance from end to end.
MOVED = 1e-5
# Forwards that a replay may take, and what it may hold beside the weights, in these.
MOST_FORWARDS, MOST_ABOVE = 8, 1.2


def references() -> dict[str, Callable[[], Reference]]:
    """Return what makes the reference of each case, by the beginning of its name."""

    def vision(build: Callable[[], Any]) -> Callable[[], Reference]:
        return lambda: reference_of(seeded(build), images())

    found = {f"onnx-{name}-": vision(build) for name, build in TORCHVISION.items()}
    found |= {"mindcv-resnet18-timm": vision(TIMM["resnet18"]), "mindcv-vit": vision(TIMM["vit"])}
    found |= {f"mindcv-{name}": vision(TORCHVISION[name]) for name in ("resnet18", "mobilenet_v2")}
    return found | {"transformers-": _transformer, "training-sgd": _training}


def _transformer(name: str = "") -> Reference:
    from transformers_ports import _TOKENS, _bert, _gpt2, _llama

    declare_nms()
    model = randomise({"bert": _bert, "gpt2": _gpt2, "llama": _llama}[name.partition("-")[2]]())
    model.set_attn_implementation("eager")
    return reference_of(model, {"input_ids": _TOKENS, "use_cache": False})


def _training() -> Reference:
    from torch import nn
    from training_ports import _LABELS, Net, optimizer_of

    given = images((4, 3, 16, 16))
    model = randomise(Net(), given).train()

    def run(one: nn.Module) -> None:
        optimizer = optimizer_of(one)
        for _ in range(2):
            optimizer.zero_grad()
            nn.functional.cross_entropy(one(given), _LABELS).backward()
            optimizer.step()

    return reference_of(model, run)


def reference_of_case(case: str) -> Reference | None:
    """Return the reference of a case; ``None`` where it is no PyTorch model."""
    for name, make in references().items():
        if case.startswith(name):
            return make(case) if make is _transformer else make()  # type: ignore[call-arg]
    return None


def main() -> int:
    """Print a line for each port, and sums."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path, metavar="OUT", help="what make.py was given")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="ports whose CASE/PORT holds this")
    parser.add_argument(
        "--halves", type=int, default=0, metavar="N", help="leave out a random half of the pairs, N times"
    )
    parser.add_argument(
        "--least", type=float, default=0.95, metavar="SHARE", help="mistakes to be named (default: 0.95)"
    )
    parser.add_argument(
        "--cost", action="append", default=[], metavar="NETWORK", help="time and memory of this network"
    )
    parser.add_argument(
        "--suggest", action="store_true", help="judge the partners that are suggested, in place of blame"
    )
    parser.add_argument(
        "--half", action="append", default=[], metavar="NETWORK", help="mistakes in 16 bits; all: every small network"
    )
    parser.add_argument("--sound", type=int, metavar="N", help="sound runs in 16 bits, and N mistakes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found")
    arguments = parser.parse_args()
    if arguments.cost:
        return _cost(arguments)
    if arguments.half:
        torch.set_num_threads(1)
        small = [name for name, plan in rounding.networks.NETWORKS.items() if plan.is_small]
        names = small if arguments.half == ["all"] else arguments.half
        for line in half_lines(names, arguments.out, steps=60, places=1):
            print(line, flush=True)
        return 0
    if arguments.sound is not None:
        torch.set_num_threads(1)
        for line in sound_lines(arguments.out, mistakes=arguments.sound):
            print(line, flush=True)
        return 0
    if arguments.suggest:
        print(f"{'case/port':50} whole   true  right  wrong  ambiguous  without a replay  seconds")
    else:
        print(f"{'case/port':50} judged  not  accused  largest right  end to end  seconds")
    found = []
    for case in sorted({path.parts[-3] for path in arguments.out.glob("*/*/truth.json")}):
        reference = None
        for path in sorted(arguments.out.glob(f"{case}/*/truth.json")):
            title = f"{case}/{path.parts[-2]}"
            if arguments.only and not any(part in title for part in arguments.only):
                continue
            reference = reference or reference_of_case(case)
            if reference is None:
                break
            if arguments.suggest:
                found.append(_suggested(path.parent, reference))
                print(_suggestion_line(title, found[-1]), flush=True)
            else:
                found.append(_judge(path.parent, reference, arguments.halves))
                print(_line(title, found[-1]), flush=True)
    return _sums_of_suggestions(found, arguments) if arguments.suggest else _sums(found, arguments)


def _cost(arguments: argparse.Namespace) -> int:
    """Print what a replay takes, beside a forward pass in float32 and beside the weights in float32.

    Time is that of a processor, of all threads; the peak has the model of the caller in it.
    """
    torch.set_num_threads(1)
    print(f"{'network':10} tensors  forward s  replay s  forwards  weights MiB  MiB above  peak over weights")
    is_within = True
    for name in arguments.cost:
        empty = _resident("VmRSS")
        model = _network(name)
        folder = arguments.out / name
        with TorchRecording(model, folder, inputs=True), torch.no_grad():
            model(*_given(name))
        planned = plan(load_suite(file=None, table={"left": folder, "right": folder}, options={}, directory=folder))
        reference = reference_of(model, _given(name))
        with torch.no_grad():
            forward = statistics.median(_seconds(lambda: model(*_given(name))) for _ in range(5))  # noqa: B023
        weights = sum(one.numel() for one in model.parameters()) * 4 / 2**20
        # The peak from here on, as the kernel of Linux counts it.
        Path("/proc/self/clear_refs").write_text("5", "utf-8")
        before = _resident("VmRSS")
        seconds = _seconds(lambda: replay_plan(planned, reference))  # noqa: B023
        peak = _resident("VmHWM")
        pairs, times, above = len(planned.pairing.pairs), seconds / forward, peak - before
        print(
            f"{name:10} {pairs:7} {forward:10.3f} {seconds:9.3f} {times:9.1f} {weights:12.0f} {above:10.0f} "
            f"{(peak - empty) / weights:18.2f}"
        )
        is_within = is_within and times <= MOST_FORWARDS and above <= MOST_ABOVE * weights + 400
    return int(not is_within)


def _network(name: str) -> Any:
    millions = int(name.removeprefix("decoder")) if name.startswith("decoder") else 0
    return (decoder(*DECODERS[millions]) if millions else NETWORKS[name].make().model).eval()


def _given(name: str) -> tuple[Any, ...]:
    torch.manual_seed(0)
    if name.startswith("decoder"):
        return (torch.randint(0, 16000, (1, 256)),)
    return (torch.randint(0, 30000, (4, 128)),) if name == "bert" else (torch.randn(4, 3, 224, 224),)


def _seconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def _resident(name: str) -> float:
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


def _plan(port: Path, **more: Any) -> Plan:
    table: dict[str, Any] = json.loads((port.parent / "case.json").read_text("utf-8"))["suite"] | more
    table |= {"left": str(port / "left"), "right": str(port.parent / "right")}
    return plan(load_suite(file=None, table=table, options={}, directory=port))


def _suggested(port: Path, reference: Reference) -> dict[str, Any]:
    """Return what is suggested where names pair nothing, with the reference and without it."""
    planned, truth = _plan(port, pair_by=["map"]), read_truth(port / "truth.json")
    good = read_truth(port.parent / "good" / "truth.json")
    holders = {right: set(value["left"]) for value in truth.values for right in value["right"]}
    entry: dict[str, Any] = {"port": f"{port.parent.name}/{port.name}", "is_whole": len(truth.pairs) == len(good.pairs)}
    entry["mistakes"] = len(truth.causes)
    for way, chosen in (("plain", None), ("replay", reference)):
        began = time.perf_counter()
        found = suggest_with(chosen, planned)
        entry["seconds"] = time.perf_counter() - began
        clear = {one.right: one.fits[0].left for one in found.suggestions if one.is_clear}
        suggested = {spelled(found.right[right]): spelled(found.left[left]) for right, left in clear.items()}
        # Whatever else holds the same value on the right has its partner already.
        folded = {spelled(found.right[number]) for number in found.copies}
        # Of modules, each call once.
        weights = {spelled(ref) for ref in found.right if ref.key.op.op_type == PARAMETER}
        wanted = {right for _, right in truth.pairs if not {"/", "#"} & {*right}} - folded - weights
        entry["true"] = len(wanted)
        entry[way] = sum(suggested.get(right) in holders[right] for right in wanted)
        entry[f"{way}_wrong"] = [
            (suggested[right], right) for right in wanted if suggested.get(right) not in {None, *holders[right]}
        ]
        entry["ambiguous"] = [
            spelled(found.right[one.right])
            for one in found.suggestions
            if not one.is_clear and spelled(found.right[one.right]) in wanted
        ]
        entry["none"] = sorted(wanted - suggested.keys() - {*entry["ambiguous"]})
    return entry


def _suggestion_line(title: str, one: dict[str, Any]) -> str:
    text = (
        f"{title:50} {'yes' if one['is_whole'] else 'no':5} {one['true']:6} {one['replay']:6} "
        f"{len(one['replay_wrong']):6} {len(one['ambiguous']):10} {one['plain']:17} {one['seconds']:8.2f}"
    )
    text += f"  WRONG {one['replay_wrong'][:4]}" if one["replay_wrong"] else ""
    return text + (f"  NONE {one['none'][:6]}" if one["none"] else "")


def _sums_of_suggestions(found: Sequence[dict[str, Any]], arguments: argparse.Namespace) -> int:
    whole = [one for one in found if one["is_whole"] and one["mistakes"]]
    for title, some in (("all ports", found), ("wrong ports whose structure is whole", whole)):
        true, right = sum(one["true"] for one in some), sum(one["replay"] for one in some)
        wrong, plain = sum(len(one["replay_wrong"]) for one in some), sum(one["plain"] for one in some)
        least = min((one["replay"] / one["true"] for one in some if one["true"]), default=1.0)
        print(
            f"{title}: {len(some)}, {right} of {true} tensors with the right partner ({right / max(true, 1):.1%}; in "
            f"one port {least:.1%} at least), {wrong} with a wrong one; {plain} without a replay"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1), "utf-8")
    return int(any(one["replay"] < arguments.least * one["true"] for one in whole))


def _judge(port: Path, reference: Reference, halves: int) -> dict[str, Any]:
    planned, truth = _plan(port), read_truth(port / "truth.json")
    # Pairs that the matcher got wrong are no question to a replay.
    true = {(left, right) for value in truth.values for left in value["left"] for right in value["right"]}
    began = time.perf_counter()
    local = replay_plan(planned, reference)
    seconds = time.perf_counter() - began
    records = compare_plan(planned)
    report = build_report(planned, {number: one.with_local(local.get(number)) for number, one in records.items()})
    pairs = planned.pairing.pairs
    accused = [number for number, one in local.items() if one.outcome == "fail"]
    wrong, places = _outside(planned, accused, local, truth)
    scores = [one.score or 0.0 for number, one in local.items() if one.measure == "score" and one.outcome == "pass"]
    entry: dict[str, Any] = {
        "port": f"{port.parent.name}/{port.name}",
        "judged": sum(one.outcome != "not_replayable" for one in local.values()),
        "not": sum(one.outcome == "not_replayable" for one in local.values()),
        "accused": [_name(pairs[number]) for number in accused],
        "innocent": [(_name(pairs[number]), local[number].score, local[number].segment) for number in wrong],
        "mispaired": sum(_key(pair) not in true for pair in pairs),
        "right": max(scores, default=0.0),
        "causes": [(cause.mistake, cause.mistake in places) for cause in truth.causes],
        "end_to_end": sum(record.fails for record in records.values()),
        "roles": sorted({_label(one.left.address) for one in report.records if one.role == "cause"}),
        "seconds": seconds,
    }
    if halves:
        # Behind a mistake without a pair nothing can show it.
        moved = {pairs[number] for number, record in records.items() if _distance(record) > MOVED}
        drawn = [_half(planned, reference, truth, number, moved) for number in range(halves)]
        entry["halves"] = [one for one in drawn if one is not None]
    return entry


def _outside(
    planned: Plan, accused: Sequence[int], local: Mapping[int, Local], truth: Truth
) -> tuple[list[int], set[str]]:
    """Return the accused pairs that are no mistake's, and the mistakes that were accused."""
    wrong, named = [], set()
    for number in accused:
        pair = planned.pairing.pairs[number]
        # Of a segment the module is accused that sees it first.
        inside = set(local[number].segment)
        hit = [one.mistake for one in truth.causes if _is_of(pair, one) or inside & _places(one)]
        named.update(hit)
        # What the truth does not judge is rounding alone, or given out by an operator that a mistake removed.
        if not hit and pair.right.key.address not in truth.unjudged_right:
            wrong.append(number)
    return wrong, named


def _is_of(pair: Pair, cause: Cause) -> bool:
    right = {*cause.right, *(_label(right) for _, right in cause.seen_at)}
    left = {*cause.left, *(_label(left) for left, _ in cause.seen_at)}
    return _name(pair) in right or pair.left.key.op.label in left


def _distance(record: Record) -> float:
    value = record.metrics.get("relative_euclidean_distance", 0.0)
    return value if isinstance(value, float) else 0.0


def _half(planned: Plan, reference: Reference, truth: Truth, seed: int, moved: Set[Pair]) -> dict[str, Any] | None:
    chosen = random.Random(seed).sample(planned.pairing.pairs, len(planned.pairing.pairs) // 2)
    half = tuple(pair for pair in planned.pairing.pairs if pair in set(chosen))
    if truth.causes and moved.isdisjoint(half):
        return None
    local = replay_plan(replace(planned, pairing=replace(planned.pairing, pairs=half)), reference)
    accused = [number for number, one in local.items() if one.outcome == "fail"]
    inside = {name for number in accused for name in (_name(half[number]), *local[number].segment)}
    found = [bool(inside & _places(cause)) for cause in truth.causes]
    return {"accused": len(accused), "found": found}


def _places(cause: Cause) -> set[str]:
    """Return where a mistake is or shows first, also without calls: segments name modules."""
    names = {*cause.right, *(_label(right) for _, right in cause.seen_at)}
    return names | {name.partition("@")[0] for name in names}


def _key(pair: Pair) -> tuple[str, str]:
    return pair.left.key.address, pair.right.key.address


def _name(pair: Pair) -> str:
    at = pair.right.key.op.at.occurrence
    return pair.right.key.op.label + (f"@{at}" if at else "")


def _label(address: str) -> str:
    return address.rsplit(":", 2)[0]


def _line(title: str, one: dict[str, Any]) -> str:
    causes = " ".join(f"{name}:{'named' if is_named else 'MISSED'}" for name, is_named in one["causes"])
    text = (
        f"{title:50} {one['judged']:6} {one['not']:4} {len(one['accused']):8} {one['right']:14.3g} "
        f"{one['end_to_end']:11} {one['seconds']:8.2f}  {causes}"
    )
    if one["innocent"]:
        text += f"  INNOCENT {one['innocent'][:4]}"
    if halves := one.get("halves"):
        found, most = sum(all(half["found"]) for half in halves), max(half["accused"] for half in halves)
        text += f"  halves {found}/{len(halves)}, most accused {most}"
    return text


def _sums(found: Sequence[dict[str, Any]], arguments: argparse.Namespace) -> int:
    causes = [is_named for one in found for _, is_named in one["causes"]]
    innocent = sum(len(one["innocent"]) for one in found)
    good = [one for one in found if not one["causes"]]
    accused = sum(bool(one["accused"]) for one in good)
    print(
        f"{len(found)} ports, {sum(one['judged'] for one in found)} modules judged, {sum(one['not'] for one in found)} "
        f"not replayable; {sum(causes)} of {len(causes)} mistakes named; {innocent} right modules accused; "
        f"{accused} of {len(good)} correct ports accused"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1), "utf-8")
    return int(bool(innocent or accused) or (bool(causes) and sum(causes) < arguments.least * len(causes)))


if __name__ == "__main__":
    sys.exit(main())
