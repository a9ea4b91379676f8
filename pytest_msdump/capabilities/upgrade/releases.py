"""Since when: every release between two, or only those that a bisection needs."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from pytest_msdump.capabilities.upgrade.court import Court, Judgement, Side
from pytest_msdump.capabilities.upgrade.environments import Environment
from pytest_msdump.core.compare.opening import open_logical
from pytest_msdump.core.errors import ConfigError, MsdumpError, ProgramError
from pytest_msdump.core.model.dump import PARAMETER, Dump

_INDEX_SECONDS = 300.0
_AVAILABLE = re.compile(r"^Available versions:\s*(.+)$", re.MULTILINE)
_BLOCK_ELEMENTS = 2**18


@dataclass(frozen=True)
class History:
    """What was found between two releases: judgements of neighbours that were tried, and releases that do not run."""

    releases: tuple[str, ...]
    tried: tuple[str, ...]
    skipped: Mapping[str, str]
    steps: tuple[Judgement, ...]

    def code(self, allowed: frozenset[str]) -> int:
        """Return the exit code: the worst of all steps."""
        codes = {step.code(allowed) for step in self.steps}
        return next((code for code in (1, 125) if code in codes), 0)


def releases_between(old: str, new: str, typed: str | None) -> list[str]:
    """Return the requirements of all releases from `old` to `new`, by a typed list or the package index."""
    name, first, last = *_pinned(old, "--old"), _pinned(new, "--new")
    if last[0] != name:
        raise ConfigError(f"--old {old} and --new {new}: name two releases of one package")
    known = typed.split(",") if typed is not None else _of_index(re.sub(r"\[.*", "", name))
    try:
        versions = {Version(one.strip()): one.strip() for one in [*known, first, last[1]]}
    except InvalidVersion as error:
        raise ConfigError(f"--releases: {error}; give them as 1.25.1,1.26.0") from error
    low, high = Version(first), Version(last[1])
    if low >= high:
        raise ConfigError(f"--old {old} is not older than --new {new}; swap them")
    return [f"{name}=={versions[one]}" for one in sorted(versions) if low <= one <= high]


def _pinned(text: str, flag: str) -> tuple[str, str]:
    try:
        found = Requirement(text)
    except InvalidRequirement as error:
        raise ConfigError(f"{flag} {text}: --each and --between need a release, as onnxruntime==1.26.0") from error
    pins = [one.version for one in found.specifier if one.operator == "=="]
    if len(found.specifier) != 1 or not pins or "*" in pins[0]:
        raise ConfigError(f"{flag} {text}: --each and --between need one release, as onnxruntime==1.26.0")
    return text.partition("==")[0].strip(), pins[0]


def _of_index(name: str) -> list[str]:
    """Ask pip for the releases of a package; final ones alone."""
    ways = [[sys.executable, "-m", "pip"]]
    if uv := shutil.which("uv"):
        ways.append([uv, "tool", "run", "--quiet", "pip"])
    for way in ways:
        try:
            ran = subprocess.run(  # noqa: S603
                [*way, "index", "versions", "--disable-pip-version-check", name],
                capture_output=True,
                text=True,
                timeout=_INDEX_SECONDS,
                check=True,
                stdin=subprocess.DEVNULL,
                env=os.environ,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        if found := _AVAILABLE.search(ran.stdout):
            return [one.strip() for one in found[1].split(",")]
    raise ConfigError(f"{name}: its releases could not be asked of a package index; name them with --releases A,B,C")


@dataclass
class Search:
    """Tries releases of one package by a court; those that do not run are skipped."""

    court: Court
    make: Callable[[str], Environment]
    releases: Sequence[str]
    skipped: dict[str, str] = field(default_factory=dict)
    tried: dict[str, Environment] = field(default_factory=dict)
    _sides: dict[str, Side] = field(default_factory=dict)

    def each(self) -> History:
        """Try every release, and judge each by the one before it that runs."""
        steps: list[Judgement] = []
        last: str | None = None
        for name in self.releases:
            side = self._attempt(name)
            if side is not None and last is not None:
                steps.append(self.court.judge(self._sides[last], side))
                # Two neighbours are all that is kept.
                self._forget(last)
            last = last if side is None else name
        return self._history(steps)

    def between(self) -> History:
        """Judge the releases that change what differs at the ends, as few of the others as possible."""
        first, last = self._attempt(self.releases[0]), self._attempt(self.releases[-1])
        if first is None or last is None:
            raise ProgramError(next(iter(self.skipped.values())))
        noisy = {
            label
            for side in (first, last)
            for label, value in prints(side.runs[0].dump).items()
            if value != prints(side.runs[1].dump)[label]
        }
        states: dict[int, Mapping[str, str] | None] = {}

        def state(place: int) -> Mapping[str, str] | None:
            """Return what each operator makes of the first release's inputs; ``None`` where that cannot be tried."""
            if place not in states:
                states[place] = self._state(self.releases[place], first, noisy)
            return states[place]

        def search(low: int, high: int) -> Iterator[tuple[int, int]]:
            if state(low) == state(high):
                return
            middle = (low + high) / 2
            for place in sorted(range(low + 1, high), key=lambda one: abs(one - middle)):
                if state(place) is not None:
                    yield from search(low, place)
                    yield from search(place, high)
                    return
            yield low, high

        steps = []
        for low, high in search(0, len(self.releases) - 1):
            old, new = (self._attempt(self.releases[place]) for place in (low, high))
            if old is not None and new is not None:
                steps.append(self.court.judge(old, new))
        return self._history(steps)

    def _state(self, name: str, first: Side, noisy: set[str]) -> Mapping[str, str] | None:
        try:
            environment = self._environment(name)
            run = self.court.program.run(environment, "state", first.run.dump)
        except MsdumpError as error:
            self.skipped[name] = _reason(error)
            return None
        return {label: value for label, value in prints(run.dump).items() if label not in noisy}

    def _environment(self, name: str) -> Environment:
        if name in self.skipped:
            raise ProgramError(self.skipped[name])
        if name not in self.tried:
            self.tried[name] = self.make(name)
        return self.tried[name]

    def _attempt(self, name: str) -> Side | None:
        if name not in self._sides:
            try:
                self._sides[name] = self.court.side(self._environment(name), f"release_{self.releases.index(name)}")
            except MsdumpError as error:
                self.skipped[name] = _reason(error)
                return None
        return self._sides[name]

    def _forget(self, name: str) -> None:
        for run in self._sides.pop(name).runs:
            shutil.rmtree(run.dump.root, ignore_errors=True)

    def _history(self, steps: Sequence[Judgement]) -> History:
        tried = {*self.tried, *self.skipped}
        in_order = tuple(name for name in self.releases if name in tried)
        return History(tuple(self.releases), in_order, self.skipped, tuple(steps))


def _reason(error: MsdumpError) -> str:
    """Return an error as one line: what happened, and the last line that was printed."""
    first, *printed = str(error).splitlines()
    return f"{first.partition('; the end')[0]}: {printed[-1].strip(' |')}" if printed else first


def prints(dump: Dump) -> dict[str, str]:
    """Return a digest of what each operator made, by label."""
    found: dict[str, Any] = {}
    for ref in dump.refs:
        if ref.key.io != "output" or ref.key.op.op_type == PARAMETER:
            continue
        total = found.setdefault(ref.key.op.label, hashlib.blake2b(digest_size=16))
        with closing(open_logical(ref)) as view:
            total.update(f"{ref.key.slot} {view.dtype} {view.shape}".encode())
            for block in view.blocks(_BLOCK_ELEMENTS):
                total.update(block.tobytes())
    return {label: total.hexdigest() for label, total in found.items()}
