"""The dumps that faults are put into: every public dump and example, and who is whose partner, by construction."""

from __future__ import annotations

import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from campaign.stored import Tensor, tensors

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
EXAMPLES = ROOT / "example_suites"


@dataclass
class Pair:
    """A tensor and its partner; ``None`` for a side that is gone. `reshape` is said in the map."""

    left: Tensor | None
    right: Tensor | None
    reshape: bool = False


@dataclass(frozen=True)
class Network:
    """Two dumps; `ways` are how they are paired: by "name", by a "map", by the "rules" of a compiled model.

    `of_map` gives the right tensor's address for each left one, ``None`` for a dump beside a copy of itself.
    `repeats` says what a tensor that is there several times is: "occurrences" meet in order, of "runs" the newest
    counts; otherwise such tensors are left alone.
    """

    name: str
    left: Path
    right: Path
    ways: tuple[str, ...] = ("name", "map")
    of_map: dict[str, tuple[str, bool]] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    repeats: str = ""

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Every tensor that has a partner, with it."""
        if self.of_map is not None:
            left = {one.address: one for one in tensors(self.left)}
            right = {one.address: one for one in tensors(self.right)}
            return tuple(Pair(left[one], right[other], way) for one, (other, way) in self.of_map.items())
        copies = {(one.file, one.address): one for one in tensors(self.right)}
        here = [one for one in tensors(self.left) if (one.file, one.address) in copies]
        together = defaultdict(list)
        for one in here:
            together[(one.folder, one.op_type, one.address)].append(one)
        kept: list[Tensor] = []
        for group in together.values():
            if len(group) == 1 or self.repeats == "occurrences":
                kept += group
            elif self.repeats == "runs":
                kept.append(max(group, key=lambda one: one.time))
        return tuple(Pair(one, copies[(one.file, one.address)]) for one in kept)

    @cached_property
    def all_paired(self) -> bool:
        """Whether every tensor of the right side has a partner."""
        return len(self.pairs) == len(tensors(self.right))

    def entries(self, pairs: list[Pair]) -> list[dict[str, Any]]:
        """Return the map's entries for these pairs; one serves all iterations and ranks."""
        types = defaultdict(set)
        for pair in pairs:
            for one in (pair.left, pair.right):
                if one is not None:
                    types[one.op].add(one.op_type)

        def name(one: Tensor) -> str:
            return f"{one.op_type}.{one.address}" if len(types[one.op]) > 1 else one.address

        found = {
            (name(pair.left), name(pair.right)): {"reshape": True} if pair.reshape else {}
            for pair in pairs
            if pair.left is not None and pair.right is not None
        }
        return [{"left": left, "right": right, **more} for (left, right), more in found.items()]


# -- the order of operators --------------------------------------------------------------------------------------------

_COORDINATES = re.compile(r"rank_(?P<rank>\d+)/(?P<net>[^/]+)/(?P<graph>\d+)/(?P<iteration>\d+)")


class Order:
    """Which of two tensors of a dump comes first, where the dump says so."""

    def __init__(self, root: Path) -> None:
        self.places: dict[tuple[str, str], dict[str, int]] = {}
        for file in root.glob("rank_*/execution_order/ms_execution_order_graph_*.csv"):
            names = [line.strip() for line in file.read_text("utf-8").splitlines()[1:]]
            mangled = [re.sub(r"[./\\ ]", "_", name) for name in names]
            counts = Counter(mangled)
            key = (file.parts[-3], file.stem.rpartition("_")[2])
            self.places[key] = {name: at for at, name in enumerate(mangled) if counts[name] == 1}

    def first(self, one: Tensor, other: Tensor) -> bool | None:
        """Whether `one` comes before `other`; ``None`` where the dump does not say."""
        if (one.folder, one.op_type, one.op) == (other.folder, other.op_type, other.op):
            return None
        if one.folder != other.folder:
            at, to = _COORDINATES.fullmatch(one.folder), _COORDINATES.fullmatch(other.folder)
            if at is None or to is None or (at["rank"], at["net"]) != (to["rank"], to["net"]):
                return None
            return (int(at["iteration"]), int(at["graph"])) < (int(to["iteration"]), int(to["graph"]))
        last = [tensor.op_type == "Parameter" for tensor in (one, other)]
        if last[0] != last[1]:
            return last[1]
        found = _COORDINATES.fullmatch(one.folder)
        places = self.places.get((f"rank_{found['rank']}", found["graph"]), {}) if found else {}
        if one.op in places and other.op in places:
            return places[one.op] < places[other.op]
        if places and not all(last):
            return None
        return one.time < other.time if one.time and other.time and one.time != other.time else None


# -- which there are ---------------------------------------------------------------------------------------------------


def _lenet_map(file: Path) -> dict[str, tuple[str, bool]]:
    """Read the pairs of a ``mapping.toml``, line by line: it holds nothing but simple keys."""
    found: dict[str, tuple[str, bool]] = {}
    for block in file.read_text("utf-8").split("[[entries]]")[1:]:
        said = dict(re.findall(r"^(\w+) = (.+)$", block, re.MULTILINE))
        text = {key: value.strip('"') for key, value in said.items()}
        left = f"{text['target_op'].replace('/', '_')}:{text['target_io']}:{text['target_slot']}"
        found[left] = (f"{text['reference']}:output:{text['reference_output']}", text.get("reshape") == "true")
    return found


def networks(work: Path | None = None, data: Path | None = None) -> dict[str, Network]:
    """Return every public dump and example by name.

    With `work`, those too that are made of public values, below it; with `data`, the dumps of that folder.
    """
    made = (_edge_values(work), _numbered(work)) if work else ()
    return {one.name: one for one in (*_port(), *_beside_themselves(), *made, *(_further(data) if data else ()))}


def _port() -> Iterator[Network]:
    lenet = DATA / "lenet"
    of_map = _lenet_map(lenet / "mapping.toml")
    output = {"io": "output"}
    yield Network("lenet port", lenet / "target", lenet / "reference", ("map",), of_map, output)
    example = EXAMPLES / "01_lenet_port"
    yield Network("example 01", example / "run", example / "reference", ("map",), of_map, output)
    # Its mistake is in the dump: what follows from conv2 fails before anything is put into it.
    wrong = EXAMPLES / "02_failing_on_purpose" / "run"
    yield Network("example 02", wrong, example / "reference", ("map",), of_map, output)
    ascend = EXAMPLES / "04_ascend_fused_conv"
    fused = {f"{one}:output:0": (f"{other}:output:0", False) for one, other in _FUSED.items()}
    rules = output | {"fusion": str(ascend / "fusion.json")}
    yield Network("example 04 rules", ascend / "run", ascend / "reference", ("rules",), fused, rules)


# Whose output an operator of the compiled model of example 04 puts out.
_FUSED = {"conv1bn1relu1": "relu1", "pool1": "pool1", "fc1": "fc1"}


def _beside_themselves() -> Iterator[Network]:
    lenet = DATA / "lenet"
    for name, folder in (
        ("lenet", lenet / "target"),
        ("lenet reference", lenet / "reference"),
        ("training", DATA / "training"),
        ("bfloat16", DATA / "bfloat16"),
        ("example 01 run", EXAMPLES / "01_lenet_port" / "run"),
        ("example 04", EXAMPLES / "04_ascend_fused_conv" / "run"),
        ("example 05", EXAMPLES / "05_quantised" / "run"),
        ("example 08", EXAMPLES / "08_one_dump" / "run"),
    ):
        yield Network(name, folder, folder, options={"io": "all"})
    for kind in ("hazards", "generations", "run_facts"):
        for folder in sorted(one for one in (DATA / kind).iterdir() if one.is_dir()):
            repeats = {"while_loop": "occurrences", "rerun_same_dir": "runs"}.get(folder.name, "")
            yield Network(f"{kind} {folder.name}", folder, folder, options={"io": "all"}, repeats=repeats)
    for folder in sorted((DATA / "ascend_golden").glob("*/left")):
        # Its files are slices of tensors.
        if folder.parent.name == "l_ffts":
            continue
        yield Network(f"golden {folder.parent.name}", folder, folder, options={"io": "all"})


def _edge_values(work: Path) -> Network:
    """Forty pairs of values at the edges: each file an operator's output."""
    for side in ("left", "right"):
        folder = work / "edge values" / side
        folder.mkdir(parents=True, exist_ok=True)
        for number, file in enumerate(sorted((DATA / "d_values" / side).glob("*.npy"))):
            shutil.copy(file, folder / f"{file.stem}.0.{1600000000000001 + number}.npy")
    return Network("edge values", folder.parent / "left", folder.parent / "right")


def _numbered(work: Path) -> Network:
    """A reference of two iterations, each in a folder that is a number."""
    for iteration in range(2):
        folder = work / "numbered" / str(iteration)
        folder.mkdir(parents=True, exist_ok=True)
        for file in (DATA / "lenet" / "reference").glob("*.npy"):
            np.save(folder / file.name, np.load(file) * np.float32(1 + iteration))
    return Network("numbered reference", folder.parent, folder.parent)


def _further(data: Path) -> Iterator[Network]:
    for folder in sorted(one for one in data.iterdir() if one.is_dir()):
        yield Network(f"data {folder.name}", folder, folder, options={"io": "all"})
