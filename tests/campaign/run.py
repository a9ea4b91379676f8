"""Put faults and harmless variations into public dumps, ask the gate, and hold its answers to independent ones.

``python tests/campaign/run.py --cases 2000 --seed N`` prints what was missed, which tensor or partner was wrong, false
alarms and crashes, each with the command that runs that case alone; it exits with 1 when there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

if __name__ == "__main__":
    # Run by hand, Python looks for modules beside this file; the tests' own place is one folder up.
    sys.path[0] = str(Path(__file__).parents[1])

import numpy as np
from campaign import sensitivity
from campaign.ascend_trials import compiled_network
from campaign.expected import Expectation
from campaign.faults import KINDS, Kind
from campaign.harmless import HARMLESS
from campaign.networks import Network, Pair, networks
from campaign.trials import FAILING, NotHereError, Outcome, Side, Trial, by_command, by_program, by_pytest

from pytest_msdump.core.metrics.kernel import VARIABLE

PROFILES = ("default", "strict", "bitwise")
# Of how many cases one is a harmless variation.
HARMLESS_EVERY = 4
# How many cases ask the real command or the real pytest, too.
OUTSIDE = 50
# After which a case counts as hung.
SECONDS = 20
# Limits that profiles have, near which sizes are drawn.
NEAR = (1e-7, 1e-4, 1e-3, 2e-3, 1e-2, 5e-2)
WRONG = ("missed", "wrong tensor", "wrong partner", "false alarm", "crash")


class Result(NamedTuple):
    """What came of a case: "ok" or one of `WRONG`, with a sentence; `size` where the kind has one."""

    number: int
    kind: str
    where: str
    outcome: str = "ok"
    sentence: str = ""
    size: float = 0.0
    found: bool = False
    harmless: bool = False


class Road(NamedTuple):
    """A way of asking; `twice` where the gate sees the dumps without the fault first. `weight` says how often."""

    name: str
    weight: int
    arguments: tuple[str, ...] = ()
    kernel: str = ""
    twice: bool = False


ROADS = (
    Road("plain", 6),
    Road("with numpy alone", 2, kernel="numpy"),
    Road("with two workers", 1, ("--jobs", "2")),
    Road("all reports", 1, ("--report", "json,csv,html,md", "--detail", "1", "--spread", "failing", "--suggest")),
    Road("with a cache by times", 1, ("--cache", "files"), twice=True),
    Road("with a cache by content", 1, ("--cache", "content"), twice=True),
)


class Case(NamedTuple):
    """A fault or a variation, where it was put, and how the gate is asked about it."""

    root: Path
    kind: Kind
    size: float
    road: Road
    harmless: bool
    where: str = ""
    trial: Trial | None = None


class HungError(Exception):
    """The gate did not answer in time."""


# -- one case ----------------------------------------------------------------------------------------------------------


class Bench:
    """What a process needs to run cases: the networks, and what each comes to without a fault."""

    def __init__(self, work: Path, data: Path | None = None) -> None:
        self.work = work
        every = networks(work, data) | {"compiled": compiled_network(work)}
        self.networks = {name: one for name, one in every.items() if one.pairs}
        self._untouched: dict[tuple[str, str, str], dict[str, Expectation]] = {}

    def untouched(self, trial: Trial) -> dict[str, Expectation]:
        """Return what each pair comes to without a fault, by the left side's file and address."""
        profile, nan = trial.options.get("profile", "default"), trial.options.get("nan", "match")
        key = (trial.network.name, profile, nan)
        if key not in self._untouched:
            network = trial.network
            clean = Trial.__new__(Trial)
            clean.__dict__ |= trial.__dict__ | {"pairs": list(network.pairs), "changed": set()}
            with tempfile.TemporaryDirectory(dir=self.work) as folder:
                clean.root = Path(folder)
                for side, source in (("left", network.left), ("right", network.right)):
                    (clean.root / side).symlink_to(source)
                found = clean.expectations({})
            self._untouched[key] = {
                f"{pair.left.file}:{pair.left.address}": one
                for pair, one in zip(network.pairs, found, strict=True)
                if pair.left is not None
            }
        return self._untouched[key]

    def make(self, seed: int, number: int) -> Case:
        """Return the case of this number: always the same one."""
        rng = Random(f"{seed}/{number}")
        harmless = number % HARMLESS_EVERY == HARMLESS_EVERY - 1
        kinds = HARMLESS if harmless else KINDS
        kind = kinds[number // HARMLESS_EVERY % len(kinds)] if harmless else rng.choice(kinds)
        size = _size(kind, rng)
        road = rng.choices(ROADS, [road.weight for road in ROADS])[0]
        case = Case(self.work / f"{seed}-{number}", kind, size, road, harmless)
        for name in rng.sample(sorted(self.networks), len(self.networks)):
            made = self._make(self.networks[name], case, rng)
            if made is not None:
                return made
        raise LookupError(f"{kind.what} can be put nowhere")

    def _make(self, network: Network, case: Case, rng: Random) -> Case | None:
        by = rng.choice(network.ways)
        settings: dict[str, Any] = {"profile": rng.choice(PROFILES if network.of_map is None else PROFILES[:2])}
        if network.all_paired and rng.random() < 0.5:
            settings["min_coverage"] = 1.0
        trial = Trial(case.root, network, by, dict(settings))
        for at in rng.sample(range(len(trial.pairs)), min(len(trial.pairs), 40)):
            side: Side = "left" if rng.random() < 0.7 else "right"
            where = f"{network.name}, by {by}, {settings['profile']}, {case.road.name}: "
            where += f"{side} {trial.file_of(trial.pairs[at], side)}"
            before = rng.getstate()
            try:
                with np.errstate(all="ignore"):
                    case.kind.inject(trial, trial.pairs[at], side, rng, case.size)
            except NotHereError:
                if not trial.changed:
                    continue
            else:
                if case.road.twice:
                    # The same once more, after the gate has seen it without a fault.
                    trial = self._seen(trial, settings, case.road)
                    rng.setstate(before)
                    with np.errstate(all="ignore"):
                        case.kind.inject(trial, trial.pairs[at], side, rng, case.size)
                return case._replace(trial=trial, where=where)
            shutil.rmtree(case.root)
            trial = Trial(case.root, network, by, dict(settings))
        shutil.rmtree(case.root)
        return None

    def _seen(self, trial: Trial, settings: dict[str, Any], road: Road) -> Trial:
        """Return the trial without its fault, once the gate was asked about it."""
        for _ in range(2):
            shutil.rmtree(trial.root)
            trial = Trial(trial.root, trial.network, trial.by, dict(settings))
            if not self.seen_in.exists():
                self._ask(trial, road)
        return trial

    @property
    def seen_in(self) -> Path:
        """The folder in which the gate is asked, and keeps what it has seen."""
        return self.work / "asked"

    def _ask(self, trial: Trial, road: Road) -> Outcome:
        self.seen_in.mkdir(exist_ok=True)
        here, kernel = Path.cwd(), os.environ.get(VARIABLE, "")
        os.chdir(self.seen_in)
        os.environ[VARIABLE] = road.kernel or kernel
        try:
            return by_command(trial, *road.arguments)
        finally:
            os.chdir(here)
            os.environ[VARIABLE] = kernel

    def run(self, seed: int, number: int, *, outside: bool = False, keep: bool = False) -> Result:
        """Run one case; `outside` asks the real command or the real pytest, too."""
        shutil.rmtree(self.seen_in, ignore_errors=True)
        case = self.make(seed, number)
        trial = case.trial
        assert trial is not None
        try:
            found, sentence, answer = self._judged(trial, case.road, outside=outside)
        finally:
            if not keep:
                shutil.rmtree(trial.root, ignore_errors=True)
        failed = answer is not None and answer.code != 0
        if keep:
            print(answer.text if answer else "", f"kept: {trial.root}", sep="\n")
        return Result(number, case.kind.what, case.where, found, sentence, case.size, failed, case.harmless)

    def _judged(self, trial: Trial, road: Road, *, outside: bool) -> tuple[str, str, Outcome | None]:
        expected = trial.expectations(self.untouched(trial))
        try:
            with time_limit(SECONDS):
                answer = self._ask(trial, road)
        except HungError:
            return "crash", f"no answer in {SECONDS} s", None
        except Exception:
            return "crash", traceback.format_exc(limit=-4).strip(), None
        if outside:
            other = (by_program if Random(trial.root.name).random() < 0.5 else by_pytest)(trial)
            if other.code not in (0, 1, 4) or "Traceback (most recent" in other.text or "INTERNALERROR" in other.text:
                return "crash", f"outside: exit code {other.code}: {other.text[-800:]}", other
            if (other.code, other.named) != (answer.code, answer.named):
                said = f"exit code {other.code}, {other.named!r} first"
                return "crash", f"outside says {said}, not {answer.code}, {answer.named!r}: {other.text[-800:]}", other
        return *judged(trial, expected, answer), answer


def _size(kind: Kind, rng: Random) -> float:
    """Draw a size, every other time one that is near a limit."""
    if kind.sizes is None:
        return 0.0
    if rng.random() < 0.5:
        near = rng.choice(NEAR) * 10 ** rng.uniform(-0.4, 0.4)
        return min(max(near, kind.sizes[0]), kind.sizes[1])
    return 10 ** rng.uniform(*(math.log10(one) for one in kind.sizes))


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Stop what waits for a pipe; what cannot be stopped so is ended with its process."""

    def stop(*_: object) -> None:
        raise HungError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# -- the judge ---------------------------------------------------------------------------------------------------------


def judged(trial: Trial, expected: list[Expectation], answer: Outcome) -> tuple[str, str]:
    """Hold an answer to what must come of a trial; return "ok" or one of `WRONG`, and why."""
    if answer.code not in (0, 1, 4) or "Traceback (most recent" in answer.text:
        return "crash", f"exit code {answer.code}: {answer.text[-800:]}"
    pairs = list(zip(trial.pairs, expected, strict=True))
    fails = [pair for pair, one in pairs if one == "fail"]
    gone = [pair for pair in trial.pairs if pair.left is None or pair.right is None]
    reason = _must_fail(trial, fails, gone)
    if answer.code == 0 and reason:
        return "missed", reason
    free = trial.expects == "free" or gone or "near" in expected
    if answer.code != 0 and not reason and not free:
        return "false alarm", f"exit code {answer.code}: {answer.named}: {answer.sentence}"
    if answer.code == 4:
        if trial.expects or not _is_whole(trial, fails):
            return ("ok", "") if trial.expects else ("wrong tensor", f"exit code 4: {answer.text[-300:]}")
        return "ok", ""
    return _records(trial, pairs, answer)


def _must_fail(trial: Trial, fails: list[Pair], gone: list[Pair]) -> str:
    if trial.expects == "fail":
        return "the dump as a whole must not pass"
    if fails:
        return f"{_name(fails[0])} is beyond its limits by more than 1 %, or broken"
    if trial.by == "map" and any(_is_asked_for(trial, at) for at, pair in enumerate(trial.pairs) if pair in gone):
        return "a tensor of the map is gone"
    if trial.by == "rules" and any((pair.left is None) != (pair.right is None) for pair in gone):
        return "one side of a pair of the rules is gone"
    if "min_coverage" in trial.settings and any(pair.right is not None for pair in gone):
        return "a tensor of the reference has no partner, and min_coverage is 1"
    return ""


def _is_asked_for(trial: Trial, at: int) -> bool:
    """Whether the map asks for a tensor that is gone: here, where others are, or because it is nowhere else."""
    pair, before = trial.pairs[at], trial.network.pairs[at]
    assert before.left is not None
    assert before.right is not None
    for side, there, was in (("left", pair.left, before.left), ("right", pair.right, before.right)):
        others = [one.left if side == "left" else one.right for one in trial.pairs]
        if there is None and (
            any(one is not None and one.folder == was.folder for one in others)
            or not any(one is not None and one.address == was.address for one in others)
        ):
            return True
    return False


def _is_whole(trial: Trial, fails: list[Pair]) -> bool:
    """Whether every file of a side is broken, so that it is no dump any more."""
    for side in ("left", "right"):
        if all(pair in fails or trial.file_of(pair, side) is None for pair in trial.pairs):
            return True
    return False


def _name(pair: Pair) -> str:
    one = pair.left or pair.right
    return "a tensor" if one is None else f"{one.file} {one.io}:{one.slot}"


def _records(trial: Trial, pairs: list[tuple[Pair, Expectation]], answer: Outcome) -> tuple[str, str]:
    """Hold the records to what is known of each pair."""
    known: dict[str, list[tuple[Pair, Expectation]]] = defaultdict(list)
    for pair, one in pairs:
        if pair.left is not None and pair.right is not None:
            known[pair.left.file].append((pair, one))
    seen, failing = set(), []
    for record in answer.records:
        file = record["left"]["file"]
        here = [
            (pair, one)
            for pair, one in known.get(file, ())
            if pair.left and record["left"]["address"].endswith(f":{pair.left.io}:{pair.left.slot}")
        ]
        for pair, _ in here:
            seen.add(id(pair))
            there = (record["right"] or {}).get("file")
            if pair.right is not None and there is not None and there != pair.right.file:
                return "wrong partner", f"{file} was compared with {there}, not with {pair.right.file}"
        if record["verdict"] in FAILING:
            failing.append((record, file, here))
    broken = {file for file, of_file in known.items() if any(one != "pass" for _, one in of_file)}
    for record, file, here in failing:
        if file not in trial.blamed and file not in broken and (here or file in known):
            said = next(one["sentence"] for one in record["findings"] if one["sentence"])
            return "wrong tensor", f"{record['left']['address']} is within its limits, but: {said}"
    failed_files = {file for _, file, _ in failing}
    for pair, one in pairs:
        if pair.left is None or pair.right is None or trial.expects == "fail":
            continue
        # A damaged file of several tensors may come to one tensor that fails, or to none.
        if pair.left.file in failed_files:
            continue
        if one == "fail" and pair.left.address not in answer.missing:
            return "wrong tensor", f"{_name(pair)} must fail, and does not; {answer.named} does"
        if one == "pass" and id(pair) not in seen:
            return "missed" if answer.code == 0 else "wrong tensor", f"{_name(pair)} was not compared"
    first = next((pair.left for pair, _ in failing[0][2]), None) if failing else None
    if first is not None:
        order = trial.order()
        for pair, one in pairs:
            if one == "fail" and pair.left is not None and order.first(pair.left, first):
                return "wrong tensor", f"{answer.named} is named first; {_name(pair)} fails before it"
    return "ok", ""


# -- many cases --------------------------------------------------------------------------------------------------------


def work(pipe: Connection, folder: str, options: argparse.Namespace) -> None:
    """Run the cases that come through a pipe, until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("error")
    bench = Bench(Path(folder), options.data)
    with contextlib.suppress(EOFError, OSError):
        while True:
            number, outside = pipe.recv()
            try:
                pipe.send(bench.run(options.seed, number, outside=outside))
            except LookupError as error:
                pipe.send(Result(number, "", "", "crash", str(error)))
            except Exception:
                pipe.send(Result(number, "", "", "crash", "campaign: " + traceback.format_exc(limit=-6)))


class Worker:
    """A process that runs cases one after another; ended and made anew when it does not answer."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self.options = folder, options
        folder.mkdir(parents=True, exist_ok=True)
        self.case: tuple[int, bool] | None = None
        self.since = 0.0
        self.pipe, end = multiprocessing.Pipe()
        # No daemonic process: those may not start the workers of `--jobs 2`.
        self.process = multiprocessing.Process(target=work, args=(end, str(folder), options))
        self.process.start()
        end.close()

    def start(self, case: tuple[int, bool]) -> None:
        """Give it a case."""
        self.case, self.since = case, time.monotonic()
        self.pipe.send(case)

    def end(self) -> None:
        """End it."""
        self.pipe.close()
        self.process.kill()
        self.process.join()


def run_all(cases: list[tuple[int, bool]], options: argparse.Namespace, folder: Path) -> Iterator[Result]:
    """Yield the results of cases, in any order."""
    waiting = list(reversed(cases))
    workers = [Worker(folder / str(at), options) for at in range(min(options.jobs, len(cases)))]
    try:
        for worker in workers:
            worker.start(waiting.pop())
        while workers:
            ready = wait([worker.pipe for worker in workers], timeout=1)
            for at, worker in enumerate(workers):
                if worker.pipe in ready:
                    try:
                        yield worker.pipe.recv()
                    except EOFError:
                        yield Result(worker.case[0] if worker.case else -1, "", "", "crash", "the process died")
                        worker.end()
                        workers[at] = worker = Worker(worker.folder, options)
                elif time.monotonic() - worker.since > 3 * SECONDS + 120 * bool(worker.case and worker.case[1]):
                    yield Result(
                        worker.case[0] if worker.case else -1, "", "", "crash", "no answer; the process was ended"
                    )
                    worker.end()
                    workers[at] = worker = Worker(worker.folder, options)
                else:
                    continue
                if waiting:
                    worker.start(waiting.pop())
                else:
                    worker.end()
                    workers[at] = None  # type: ignore[call-overload]
            workers = [worker for worker in workers if worker is not None]
    finally:
        for worker in workers:
            if worker is not None:
                worker.end()


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000, help="how many (default: 2000)")
    parser.add_argument("--seed", type=int, default=0, help="which cases (default: 0)")
    parser.add_argument("--only", type=int, metavar="CASE", help="run this case alone; keep its files")
    parser.add_argument("--data", type=Path, metavar="DIR", help="put faults into the dumps of this folder, too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per CPU)")
    parser.add_argument("--rewrite", action="store_true", help="put the tables into docs/reference/sensitivity.md")
    parser.add_argument("--outside", type=int, default=OUTSIDE, help="cases that ask the real command or pytest, too")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign; return 1 when an answer was wrong."""
    options = parsed(arguments)
    if options.only is not None:
        bench = Bench(Path(tempfile.mkdtemp(prefix="campaign_")), options.data)
        result = bench.run(options.seed, options.only, keep=True)
        print(f"{result.outcome}: {result.kind} {result.size or ''}; {result.where}: {result.sentence}")
        return int(result.outcome != "ok")
    every = max(1, options.cases // options.outside) if options.outside else 0
    cases = [(number, bool(every) and number % every == 0) for number in range(options.cases)]
    started, results = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="campaign_") as folder:
        for result in run_all(cases, options, Path(folder)):
            results.append(result)
            if result.outcome != "ok":
                print(f"{result.outcome.upper()}: {result.kind} {result.size or ''}; {result.where}")
                print(f"  {result.sentence}")
                print(f"  python tests/campaign/run.py --seed {options.seed} --only {result.number}", flush=True)
    wrong = summed_up(results, options, time.monotonic() - started)
    return int(tables_differ(rewrite=options.rewrite) or wrong)


def tables_differ(*, rewrite: bool) -> bool:
    """Print the smallest sizes that are found, and whether the page of the documentation shows others."""
    with tempfile.TemporaryDirectory(prefix="campaign_") as folder:
        tables = {
            "Smallest sizes": list(sensitivity.size_table(Path(folder))),
            "Mistakes": list(sensitivity.mistake_table(Path(folder))),
        }
    differ = False
    for heading, lines in tables.items():
        print("", heading, *lines, sep="\n")
        if rewrite:
            sensitivity.rewrite(heading, lines)
        elif lines != sensitivity.of_page(heading):
            print(f"{sensitivity.PAGE.name} shows another table: python tests/campaign/run.py --cases 0 --rewrite")
            differ = True
    return differ


def summed_up(results: list[Result], options: argparse.Namespace, seconds: float) -> int:
    """Print the counts."""
    counts = Counter(result.outcome for result in results)
    faults = Counter(result.kind for result in results if not result.harmless)
    variations = {result.kind for result in results if result.harmless}
    found = sum(result.found for result in results if not result.harmless)
    print(f"seed {options.seed}: {len(results)} cases in {seconds:.0f} s")
    print(f"  {faults.total()} faults of {len(faults)} kinds, {found} of them found")
    print(f"  {len(results) - faults.total()} harmless variations of {len(variations)} kinds")
    print(", ".join(f"{counts[one]} {one}" for one in WRONG))
    return int(any(counts[one] for one in WRONG))


if __name__ == "__main__":
    sys.exit(main())
