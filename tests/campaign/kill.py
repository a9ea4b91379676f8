"""End processes by kill -9 while they write, and look whether anything half-written is believed afterwards.

``python tests/campaign/kill.py --times 100 --seed N`` ends recordings, kept references, runs of the command and of
pytest, and runs with a cache: a third of them right before an operation on a file, a third in the middle of a file, a
third at any time. It prints how many were ended where, and exits with 1 when something half-written was believed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

if __name__ == "__main__":
    # Run by hand, Python looks for modules beside this file; the tests' own place is one folder up.
    sys.path[0] = str(Path(__file__).parents[1])

from outcomes import without_run

from pytest_msdump import open_dump
from pytest_msdump.capabilities.record.reference import keep_reference
from pytest_msdump.cli import main as command
from pytest_msdump.core import gate
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.record import DumpWriter

KINDS = "json,csv,html,md,gitlab"
FILES = ("results.json", "ops.csv", "index.html", "summary.md", "gl-code-quality.json")
OPERATORS = 24
# What a process says on its way; from each on, less of what stood before may be left.
BEGUN, ENDED = b"b", b"e"
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

Say = Callable[[bytes], object]


class Trial(NamedTuple):
    """What a process that was ended leaves behind: its folder, and whether it had begun and ended its work."""

    folder: Path
    begun: bool
    ended: bool


class Role(NamedTuple):
    """Something that is written: the folder it starts from, what writes it, and what judges what is left of it."""

    name: str
    before: Path
    work: Callable[[Path, Say], object]
    judge: Callable[[Trial], list[str]]


# -- what is written


def values(seed: int) -> dict[str, np.ndarray]:
    """The tensors of a run; those of another seed are other numbers under the same names."""
    random = np.random.default_rng(seed)
    return {f"op{number:02d}": random.standard_normal(50).astype("f4") for number in range(OPERATORS)}


def write_side(folder: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write a reference folder by numpy alone."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, array) in enumerate(tensors.items()):
        np.save(folder / f"{name}.0.{1_700_000_000_000_000 + number}.npy", array)


def record(folder: Path, tensors: Mapping[str, np.ndarray], save: str = "full") -> None:
    """Record all tensors of a run, with inputs."""
    with DumpWriter(folder, framework="numpy", save=save) as writer:
        for name, array in tensors.items():
            writer.write(f"net/{name}", array)
            writer.write(f"net/{name}", array, io="input")


def build(folder: Path) -> None:
    """Build the kept reference."""
    record(folder, values(2))


def build_before(folder: Path) -> None:
    """Build the one that was kept before."""
    record(folder, values(1))


def recording(folder: Path, say: Say) -> None:
    say(BEGUN)
    record(folder / "dump", values(1))


def sketches(folder: Path, say: Say) -> None:
    say(BEGUN)
    # Small tensors are whole in the archive of sketches.
    record(folder / "dump", values(1), save="sketch")


def reference(folder: Path, say: Say) -> None:
    say(BEGUN)
    keep_reference("net", build, directory=folder / "kept")


def by_command(*more: str) -> Callable[[Path, Say], None]:
    def run(_: Path, say: Say) -> None:
        records_of = gate.records_of
        gate.records_of = lambda *given, **named: (say(BEGUN), records_of(*given, **named))[1]
        command(["compare", "left", "right", *more])

    return run


def by_pytest(folder: Path, say: Say) -> None:
    class Begins:
        def pytest_runtest_logstart(self) -> None:
            say(BEGUN)

    sides = ("--msdump-left=left", "--msdump-right=right", f"--msdump-report={KINDS}")
    pytest.main(["-q", "-p", "no:cacheprovider", f"--rootdir={folder}", *sides], plugins=[Begins()])


# -- processes that are ended


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Work in a folder, and print nothing."""
    here, kept = Path.cwd(), [os.dup(stream) for stream in (1, 2)]
    null = os.open(os.devnull, os.O_WRONLY)
    os.chdir(folder)
    sys.stdout.flush()
    for stream in (1, 2):
        os.dup2(null, stream)
    try:
        yield
    finally:
        sys.stdout.flush()
        for stream, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, stream)
            os.close(copy)
        os.close(null)
        os.chdir(here)


def counting(folder: Path, fatal: int | None) -> list[int]:
    """Count operations that write below a folder; before number `fatal` this process is ended."""
    count, root = [0], os.fspath(folder)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & _WRITING:
                return
        elif event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"):
            path = arguments[0]
        else:
            return
        # Links are followed on neither side.
        if isinstance(path, int) or not str(Path(os.fsdecode(path)).absolute()).startswith(root):
            return
        if count[0] == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        count[0] += 1

    sys.addaudithook(watch)
    return count


def end_in_a_file(size: int) -> None:
    """Let the system end this process when a file would become larger than `size` bytes, which it then has."""
    # Python ignores the signal, which by itself ends a process as surely as kill -9 does.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def ended(
    role: Role,
    folder: Path,
    *,
    operation: int | None = None,
    size: int | None = None,
    after: float | None = None,
) -> tuple[Trial, int]:
    """Let a process work in `folder`, and end it before an operation, in a file of some size, or after some seconds.

    Returns
    -------
    Trial, int
        What is left, and how many operations on files there were if it was not ended.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(role.before, folder)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with suppress(BaseException), alone(folder):
            count = counting(folder, operation)
            if size is not None:
                end_in_a_file(size)
            role.work(folder, lambda word: os.write(writing, word))
            os.write(writing, ENDED + str(count[0]).encode())
        os._exit(0)
    os.close(writing)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    # Its end of the pipe is closed by its end, if nothing else.
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    _, word, count = said.partition(ENDED)
    return Trial(folder, BEGUN in said, bool(word)), int(count or 0)


# -- what is left of it


def held(folder: Path, allowed: Mapping[str, Mapping[str, np.ndarray]]) -> str:
    """Say which run a recording holds, by name: all tensors, bit for bit; empty where it is refused or absent."""
    try:
        dump = open_dump(folder)
    except ConfigError:
        return ""
    if not dump.dump.refs:
        # An empty folder, which no comparison passes.
        return ""
    found = {address: dump.read(address) for address in dump}
    for name, tensors in allowed.items():
        wanted = {f"net/{op}:{io}:0": array for op, array in tensors.items() for io in ("input", "output")}
        if found.keys() == wanted.keys() and all(np.array_equal(found[key], wanted[key]) for key in wanted):
            return name
    return f"{len(found)} of {2 * OPERATORS} tensors"


def judge_recording(trial: Trial) -> list[str]:
    found = held(trial.folder / "dump", {"whole": values(1)})
    if trial.ended and found != "whole":
        return [f"a recording that ended is not whole: {found or 'refused'}"]
    return [f"a recording is believed that holds {found}"] if found not in ("", "whole") else []


def judge_reference(trial: Trial) -> list[str]:
    runs = {"old": values(1), "new": values(2)}
    found = held(trial.folder / "kept/net", runs)
    wrong = [f"a kept reference is believed that holds {found}"] if found not in ("", *runs) else []
    if trial.ended and found != "new":
        wrong.append(f"a reference that was kept is not there: {found or 'refused'}")
    made = held(keep_reference("net", build, directory=trial.folder / "kept"), runs)
    return wrong if made == "new" else [*wrong, f"a reference that was broken off is used: {made or 'refused'}"]


def reports_in(folder: Path) -> dict[str, bytes]:
    """The report files by name, as bytes, without date and command."""
    return {
        name: without_run(file.read_bytes()) for name in FILES if (file := folder / "msdump-report" / name).is_file()
    }


def judge_reports(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Callable[[Trial], list[str]]:
    """Judge report files by those of the run before, which passed, and those of this one, which fails, when it ends."""

    def judge(trial: Trial) -> list[str]:
        found, wrong = reports_in(trial.folder), []
        for name, content in found.items():
            if content == after[name] or (not trial.begun and content == before[name]):
                continue
            if content == before[name]:
                wrong.append(f"{name} of the run before stands")
            elif name != "results.json" or not says_not_ended(content):
                wrong.append(f"{name} is half-written")
        if trial.ended and found != after:
            wrong.append(f"a run ended and has not all its reports: {sorted(found)}")
        with alone(trial.folder):
            code = command(["check", "msdump-report/results.json"])
        if code == 0 and trial.begun:
            wrong.append("msdump check passes a run that failed or was ended")
        return wrong

    return judge


def says_not_ended(content: bytes) -> bool:
    """Whether it is a document that any program can read, and that says itself that it is not complete."""
    try:
        values = json.loads(content)
    except ValueError:
        return False
    return values.get("complete") is False and values["tensors"] == [] and not any(values["counts"].values())


def judge_cache(after: bytes) -> Callable[[Trial], list[str]]:
    """Judge a cache by what the next run says with it: the same as one without."""

    def judge(trial: Trial) -> list[str]:
        with alone(trial.folder):
            command(["compare", "left", "right", "--cache", "files"])
        found, wanted = (json.loads(text)["tensors"] for text in (reports_in(trial.folder)["results.json"], after))
        return [] if found == wanted else ["a damaged cache is believed"]

    return judge


# -- the campaign


def roles(base: Path, folder: Path) -> list[Role]:
    """Prepare what is there before each process starts, and what is there when one ends; in `folder`, as later on."""
    empty, kept, runs = base / "empty", base / "kept", base / "runs"
    empty.mkdir()
    keep_reference("net", build_before, directory=kept / "kept")
    # Yesterday the two sides were equal; today one operator drifts, under the same names, with the same sizes.
    right = values(1)
    left = {name: array * np.float32(1.1) if name == "op07" else array for name, array in right.items()}
    write_side(folder / "right", right)
    write_side(folder / "left", right)
    with alone(folder):
        yesterday = command(["compare", "left", "right", "--report", KINDS, "--cache", "files"])
    before = reports_in(folder)
    write_side(folder / "left", left)
    shutil.copytree(folder, runs)
    ways: dict[str, Callable[[Path, Say], None]] = {
        "command": by_command("--report", KINDS),
        "pytest": by_pytest,
        "cache": by_command("--cache", "files"),
    }
    after: dict[str, dict[str, bytes]] = {}
    for name, way in ways.items():
        trial, _ = ended(Role(name, runs, way, lambda _: []), folder)
        after[name] = reports_in(folder)
        failing = json.loads(after[name]["results.json"])["counts"]["fail"]
        if yesterday or not trial.ended or not trial.begun or failing != 1:
            raise RuntimeError(f"{name}: without a kill the run does not say what it should")
    return [
        Role("recording", empty, recording, judge_recording),
        Role("sketches", empty, sketches, judge_recording),
        Role("reference", kept, reference, judge_reference),
        Role("command", runs, ways["command"], judge_reports(before, after["command"])),
        Role("pytest", runs, ways["pytest"], judge_reports(before, after["pytest"])),
        Role("cache", runs, ways["cache"], judge_cache(after["command"]["results.json"])),
    ]


def main(words: list[str] | None = None) -> int:
    """Run the campaign; 1 where something was believed, or nothing was ended in its work."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100, help="how many processes are ended")
    parser.add_argument("--seed", type=int, default=0)
    parsed = parser.parse_args(words)
    random, wrong, came = Random(parsed.seed), [], Counter[tuple[str, str]]()
    with tempfile.TemporaryDirectory() as temporary:
        base, folder = Path(temporary, "base").resolve(), Path(temporary, "work").resolve()
        base.mkdir()
        folder.mkdir()
        listed = roles(base, folder)
        operations, seconds, sizes = {}, {}, {}
        for role in listed:
            start = time.monotonic()
            _, operations[role.name] = ended(role, folder)
            seconds[role.name] = time.monotonic() - start
            sizes[role.name] = sorted(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        for number in range(parsed.times):
            role = listed[number % len(listed)]
            ways: tuple[dict[str, Any], ...] = (
                {"operation": random.randrange(operations[role.name])},
                {"size": int(random.choice(sizes[role.name]) * random.random())},
                {"after": random.uniform(0, seconds[role.name])},
            )
            how = ways[number // len(listed) % len(ways)]
            trial, _ = ended(role, folder, **how)
            state = "ended before" if trial.ended else "in its work" if trial.begun else "not begun"
            came[role.name, state] += 1
            for sentence in role.judge(trial):
                wrong.append(sentence)
                print(f"BELIEVED {role.name} {how}: {sentence}", flush=True)
    for role in listed:
        states = ", ".join(f"{count} {state}" for (name, state), count in sorted(came.items()) if name == role.name)
        print(f"{role.name}: {operations[role.name]} operations on files; killed: {states or 'none'}")
    hit = sum(count for (_, state), count in came.items() if state == "in its work")
    print(f"seed {parsed.seed}: {parsed.times} kills, {hit} in the work; believed half-written: {len(wrong)}")
    return int(bool(wrong) or not hit)


if __name__ == "__main__":
    raise SystemExit(main())
