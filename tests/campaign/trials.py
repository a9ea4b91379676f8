"""A copy of two dumps to put a fault into, and the ways in which the gate is asked about it."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from campaign.expected import Expectation, expectation
from campaign.networks import DATA, Network, Order, Pair, networks
from campaign.stored import Span, Tensor, UnreadableError, content, span, tensors, widened

from pytest_msdump import assert_dumps_close
from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json

LENET = DATA / "lenet"
FAILING = ("fail", "undefined", "error")

Array = npt.NDArray[Any]
Change = Callable[[Array], npt.ArrayLike]
Side = Literal["left", "right"]


class NotHereError(Exception):
    """This kind of fault cannot be put into this tensor."""


class Outcome(NamedTuple):
    """What the gate answered: exit code, tensor or map entry named first, why, all it printed, all that failed.

    `missing` are the left addresses of map entries that were not paired.
    """

    code: int
    named: str
    sentence: str
    text: str
    failing: frozenset[str] = frozenset()
    records: tuple[dict[str, Any], ...] = ()
    missing: frozenset[str] = frozenset()


class Sides:
    """Two dumps below a folder, and the suite that compares them."""

    root: Path
    settings: Mapping[str, Any]

    @property
    def left(self) -> Path:
        """The side that is mostly broken."""
        return self.root / "left"

    @property
    def right(self) -> Path:
        """The reference."""
        return self.root / "right"

    @property
    def options(self) -> dict[str, Any]:
        """What the suite says beside its sides and its map."""
        return {"io": "all", **self.settings}

    def entries(self) -> list[dict[str, Any]]:
        """Return the map; its entries can be changed in place."""
        return []

    def suite(self) -> Path:
        """Write the suite file; JSON's strings, numbers and booleans are TOML's."""
        lines = ["[msdump]", 'left = "left"', 'right = "right"']
        lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in self.options.items()]
        for entry in self.entries():
            lines += ["[[msdump.map]]"]
            lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
        file = self.root / "msdump.toml"
        file.write_text("\n".join(lines) + "\n", "utf-8")
        return file


@dataclass
class Trial(Sides):
    """Copies of a network's two sides below `root`, paired `by` name, map or rules.

    `pairs` says what is whose partner after the fault. `settings` are the suite's. `expects` says what the fault
    comes to beside what its values do: "fail" where the dump as a whole must not pass, "free" where either answer is
    right. `blamed` are left files that may rightly fail beside those whose values are wrong.
    """

    root: Path
    network: Network
    by: str = "name"
    settings: dict[str, Any] = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)
    expects: Literal["fail", "free", ""] = ""
    blamed: set[str] = field(default_factory=set)
    changed: set[Path] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        copy(self.network.left, self.left)
        copy(self.network.right, self.right)
        self.pairs = [replace(pair) for pair in self.network.pairs]
        self._entries = self.network.entries(self.pairs) if self.by == "map" else []

    @property
    def options(self) -> dict[str, Any]:
        """What the suite says beside its sides and its map."""
        return {"io": "all", **self.network.options, **self.settings}

    def entries(self) -> list[dict[str, Any]]:
        """Return the map; its entries can be changed in place."""
        return self._entries

    def folder(self, side: Side) -> Path:
        """The dump of a side."""
        return self.left if side == "left" else self.right

    # -- one tensor ----------------------------------------------------------------------------------------------------

    def tensor(self, pair: Pair, side: Side) -> Tensor:
        """The tensor of a side; not here when it is gone."""
        one = pair.left if side == "left" else pair.right
        if one is None:
            raise NotHereError
        return one

    def path(self, pair: Pair, side: Side) -> Path:
        """The file of a side's tensor."""
        return self.folder(side) / self.tensor(pair, side).file

    def data(self, pair: Pair, side: Side) -> bytes:
        """Return a file's bytes."""
        try:
            return content(self.path(pair, side))
        except UnreadableError:
            raise NotHereError from None

    def write(self, pair: Pair, side: Side, data: bytes) -> None:
        """Put other bytes into a file; the copies share their files with the template, so it is written anew."""
        self.write_file(self.path(pair, side), data)

    def write_file(self, path: Path, data: bytes) -> None:
        """Write a file anew."""
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.changed.add(path)

    def remove(self, path: Path) -> None:
        """Take a file away."""
        path.unlink()
        self.changed.add(path)

    def span(self, pair: Pair, side: Side) -> Span:
        """Return where a tensor's values lie in its file."""
        try:
            found = span(self.path(pair, side), self.tensor(pair, side))
        except UnreadableError:
            found = None
        if found is None:
            raise NotHereError
        return found

    def values(self, pair: Pair, side: Side) -> Array:
        """Return a tensor's values as they are stored; bfloat16 as float32."""
        at = self.span(pair, side)
        bits = np.frombuffer(
            self.data(pair, side)[at.start : at.end], np.uint16 if at.kind == "bfloat16" else at.kind
        ).reshape(at.shape)
        return widened(bits) if at.kind == "bfloat16" else bits.copy()

    def put(self, pair: Pair, side: Side, values: npt.ArrayLike) -> None:
        """Write a tensor's values: in their place where type and shape are kept, else a new npy file."""
        array, at = np.asarray(values), self.span(pair, side)
        if at.kind == "bfloat16" and array.dtype == np.float32:
            array = (np.ascontiguousarray(array).view(np.uint32) >> 16).astype(np.uint16)
        kept = array.shape == at.shape and array.dtype == np.dtype("u2" if at.kind == "bfloat16" else at.kind)
        path = self.path(pair, side)
        if kept:
            data = self.data(pair, side)
            self.write(pair, side, data[: at.start] + array.tobytes() + data[at.end :])
        elif path.suffix == ".npy" and at.kind != "bfloat16":
            self.write(pair, side, npy(array))
        else:
            raise NotHereError

    def renamed(self, pair: Pair, side: Side, name: str, **changes: Any) -> None:
        """Give a tensor's file another name, and say what its name now says."""
        one, path = self.tensor(pair, side), self.path(pair, side)
        if sum(one.file == self.file_of(other, side) for other in self.pairs) > 1:
            raise NotHereError
        new = path.with_name(name)
        if new.exists():
            raise NotHereError
        path.rename(new)
        self.changed |= {path, new}
        now = one._replace(file=f"{one.folder}/{name}".lstrip("/"), **changes)
        if side == "left":
            pair.left = now
        else:
            pair.right = now

    def file_of(self, pair: Pair, side: Side) -> str | None:
        """The file of a side's tensor below its dump, ``None`` where it is gone."""
        one = pair.left if side == "left" else pair.right
        return None if one is None else one.file

    def gone(self, path: Path) -> None:
        """Say that no tensor of this file is there any more."""
        self.changed.add(path)
        lost = [pair for pair in self.pairs if path in self._paths(pair)]
        if self.network.repeats == "occurrences" and any(_are_repeats(one, two) for one in lost for two in self.pairs):
            # Without it, the others are counted otherwise.
            raise NotHereError
        for pair in lost:
            if pair.left is not None and self.left / pair.left.file == path:
                pair.left = self._older(self.left, pair.left)
            if pair.right is not None and self.right / pair.right.file == path:
                pair.right = self._older(self.right, pair.right)

    def _older(self, folder: Path, lost: Tensor) -> Tensor | None:
        """Return what counts where the newest file of a tensor is gone."""
        if self.network.repeats != "runs":
            return None
        same = [one for one in tensors(folder) if (one.folder, one.address) == (lost.folder, lost.address)]
        return max(same, key=lambda one: one.time, default=None)

    def _paths(self, pair: Pair) -> set[Path]:
        sides = ((self.left, pair.left), (self.right, pair.right))
        return {folder / one.file for folder, one in sides if one is not None}

    def pair_of(self, address: str) -> Pair:
        """The one pair of a left tensor: ``OP:io:slot`` with the operator's true or mangled name."""
        wanted = address.replace("/", "_")
        (found,) = [pair for pair in self.pairs if pair.left is not None and pair.left.address == wanted]
        return found

    # -- what must come of it ------------------------------------------------------------------------------------------

    def expectations(self, untouched: Mapping[str, Expectation]) -> list[Expectation]:
        """Return what each pair must come to; of files that were not touched as in `untouched`, by left address."""
        return [self._expected(pair, untouched) for pair in self.pairs]

    def _expected(self, pair: Pair, untouched: Mapping[str, Expectation]) -> Expectation:
        if pair.left is None or pair.right is None:
            return "near"
        left, right = self.left / pair.left.file, self.right / pair.right.file
        key = f"{pair.left.file}:{pair.left.address}"
        if key in untouched and not self.changed & {left, right}:
            return untouched[key]
        return expectation(
            left,
            pair.left,
            right,
            pair.right,
            profile=self.options.get("profile", "default"),
            nan=self.options.get("nan", "match"),
            reshape=pair.reshape,
        )

    def order(self) -> Order:
        """Return the order of the left side's operators."""
        return Order(self.network.left)


def _are_repeats(one: Pair, two: Pair) -> bool:
    """Whether two pairs are the same tensor, in one iteration."""
    if one is two or one.left is None or two.left is None:
        return False
    return (one.left.folder, one.left.address) == (two.left.folder, two.left.address)


def copy(source: Path, target: Path) -> None:
    """Copy a dump: a tree of hard links."""
    for folder, _, files in os.walk(source):
        here = target / Path(folder).relative_to(source)
        here.mkdir(parents=True, exist_ok=True)
        for name in files:
            if not name.endswith((".py", ".pyc")):
                _link(Path(folder, name), here / name)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy(source, target)


def npy(array: Array) -> bytes:
    """Return an array as a file of its own."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def lenet(root: Path, by: str = "map", settings: Mapping[str, Any] | None = None) -> Trial:
    """Return the LeNet dumps: by "map" the port against PyTorch, by "name" the port against itself, inputs too."""
    found = networks()["lenet port" if by == "map" else "lenet"]
    return Trial(root, found, by, dict(settings or {}))


# -- asking ------------------------------------------------------------------------------------------------------------


def by_command(trial: Sides, *arguments: str) -> Outcome:
    """Ask ``msdump compare``, in this process."""
    reports = trial.root / "by-command"
    command = ["compare", "--config", str(trial.suite()), "--report-dir", str(reports), *arguments]
    return _outcome(*quietly(command), reports)


def quietly(command: Sequence[str]) -> tuple[int, str]:
    """Run ``msdump`` in this process; return its exit code and all that it printed."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = main(list(command))
    return code, printed.getvalue()


def by_program(trial: Sides) -> Outcome:
    """Ask the command itself, in a process of its own."""
    reports = trial.root / "by-program"
    command = ["pytest_msdump", "compare", "--config", str(trial.suite()), "--report-dir", str(reports)]
    return _outcome(*_run(command, trial.root), reports)


def by_pytest(trial: Sides, *arguments: str) -> Outcome:
    """Ask pytest, in a process of its own."""
    reports = trial.root / "by-pytest"
    command = ["pytest", str(trial.suite()), "-p", "no:cacheprovider", "--rootdir", "."]
    return _outcome(*_run([*command, "--msdump-report-dir", str(reports), *arguments], trial.root), reports)


def _run(command: Iterable[str], folder: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def by_helper(trial: Sides) -> str | None:
    """Ask `assert_dumps_close`; return what it says, ``None`` when it is content."""
    options = {key: value for key, value in trial.options.items() if value is not None}
    try:
        assert_dumps_close(trial.left, trial.right, map=trial.entries(), **options)
    except AssertionError as error:
        return str(error)
    return None


def _outcome(code: int, text: str, reports: Path) -> Outcome:
    file = reports / "results.json"
    if not file.is_file():
        return Outcome(code, "", "no results.json was written", text)
    results = read_json(file)
    records = tuple(results["tensors"])
    failing = [record for record in records if record["verdict"] in FAILING]
    all_failing = frozenset(record["left"]["address"] for record in failing)
    missing = frozenset(entry["left"] for entry in results["missing"])
    for record in failing:
        finding = next(one for one in record["findings"] if one["sentence"])
        return Outcome(code, record["left"]["address"], finding["sentence"], text, all_failing, records, missing)
    for entry in results["missing"]:
        return Outcome(code, entry["left"], entry["reason"], text, records=records, missing=missing)
    for entry in results["unmatched"]:
        if code and entry["side"] == "right":
            return Outcome(code, entry["address"], entry["reason"], text, records=records, missing=missing)
    return Outcome(code, "", "nothing failed", text, records=records, missing=missing)
