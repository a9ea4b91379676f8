"""Damage real files in every way, and give them to every parser: nothing but an answer or an error of ours may come.

``python tests/campaign/fuzz.py --cases 200000 --seed N`` prints a table of the parsers, and each finding with the
command that does that case again; it exits with 1 when there is one. A finding is another exception, a crash, an object
that is unpickled or a program that is started, more than 5 s of computing, or more than 300 MiB beyond what the process
had. ``--parser 'file of torch.save'`` asks that one alone.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

if __name__ == "__main__":
    # Run by hand, Python looks for modules beside this file; the tests' own place is one folder up.
    sys.path[0] = str(Path(__file__).parents[1])

from campaign.json_edits import DELETED, HOSTILE, edited, paths
from campaign.parsers import PARSERS, Parser, Seed, said_well

from pytest_msdump.core.errors import MsdumpError

SECONDS = 5
MEMORY_BYTES = 300 * 2**20
# A parser that waits computes nothing: so long until its process is ended.
WAIT_SECONDS = 60
START_SECONDS = 300
LARGEST = 2**18
CHUNK = 200
# What Python says to an audit hook before a name is taken out of a pickle, or a program is started.
FORBIDDEN = frozenset({"pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen"})


class Finding(NamedTuple):
    """What must not be: the number of the case, its parser, what happened and where."""

    number: int
    parser: str
    what: str
    where: str = ""


class Outcome(NamedTuple):
    """What came of a case, by its number: "read", "refused" or "finding"; how long it took, in seconds of computing."""

    number: int
    parser: str
    word: str
    seconds: float
    finding: Finding | None = None


# -- what is done to a file --------------------------------------------------------------------------------------------

_NUMBERS = (0, 1, -1, 2**7, 2**8 - 1, 2**15, 2**16, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
_TEXTS = (
    b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\0", b"\r", b"\x1b[31m", b"\\ud800", b'"', b"'", b"\\",
    b"[", b"]", b"{", b"}", b"(", b")", b"%s", b"NaN", b"Infinity", b"-0", b"1e999", b"9" * 400, b"9" * 5000, b"null",
    b"true", b"//", b"../../x", b"/dev/zero", b"::", b":output:0", b"\xe2\x80\xae", b"\xd9\xa3", b"a" * 300,
)  # fmt: skip
_DEEP = (b"[", b"{", b"(", b'{"a":', b"[[", b"a {", b"op {", b"Tuple[", b"<", b"((", b"\x0a\x02", b"a.")
_TOKEN = re.compile(rb"[A-Za-z_0-9.]+|\"[^\"\n]*\"|-?[0-9]+")
_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


def _place(rng: Random, data: bytearray) -> int:
    """A place in a file; its beginning is where most is decided."""
    return rng.randrange(min(len(data), rng.choice((16, 64, 512, len(data), len(data)))) or 1) if data else 0


def _flip(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        if data:
            data[_place(rng, data)] ^= 1 << rng.randrange(8)


def _set_bytes(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    for _ in range(rng.choice((1, 2, 4))):
        if data:
            data[_place(rng, data)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _insert(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    place = _place(rng, data)
    data[place:place] = rng.choice((rng.randbytes(rng.choice((1, 2, 7, 64))), rng.choice(_TEXTS)))


def _delete(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    place = _place(rng, data)
    del data[place : place + rng.choice((1, 2, 4, 8, 100, len(data)))]


def _repeat(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    place, length = _place(rng, data), rng.choice((1, 8, 50, 400))
    data[place:place] = data[place : place + length] * rng.choice((1, 2, 50))


def _truncate(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _splice(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    other = rng.choice(others)
    data[_place(rng, data) :] = other[rng.randrange(len(other) + 1) :]


def _extend(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    data += rng.choice((bytes(data), rng.choice(others), bytes(rng.choice((1, 7, 4096))), rng.randbytes(16)))


def _size(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    """Put a hostile size where a size may be, in any of the ways that sizes are written."""
    number, place = rng.choice(_NUMBERS), _place(rng, data)
    width = rng.choice((1, 2, 4, 8))
    field = (number % 2 ** (8 * width)).to_bytes(width, rng.choice(("little", "big")))
    varint = bytearray()
    value = number % 2**64
    while value >= 128:
        varint.append(value & 127 | 128)
        value >>= 7
    varint.append(value)
    written = rng.choice((field, bytes(varint), b"\xff" * 10 + b"\x01"))
    data[place : place + rng.choice((0, 1, len(written)))] = written


def _number(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    found = list(_NUMBER.finditer(data))
    if found:
        match = rng.choice(found)
        texts = (b"1e999", b"9" * 400, b"9" * 5000, b"-0.0", b"NaN", b"", b"1_0", b"0x1", b"1e-999", b"0.1e1")
        texts = (*texts, *(str(number).encode() for number in rng.sample(_NUMBERS, 5)))
        data[match.start() : match.end()] = rng.choice(texts)


def _token(rng: Random, data: bytearray, others: Sequence[bytes]) -> None:
    found = list(_TOKEN.finditer(data[:20_000]))
    if found:
        match = rng.choice(found)
        words = _TOKEN.findall(rng.choice(others)[:20_000]) or [b""]
        data[match.start() : match.end()] = rng.choice((rng.choice(words), rng.choice(_TEXTS), rng.choice(found)[0]))


def _lines(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    lines = bytes(data).split(b"\n")
    place, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    rng.choice(
        (
            lambda: lines.insert(other, lines[place]),
            lambda: lines.pop(place),
            lambda: lines.reverse(),
            lambda: lines.__setitem__(place, lines[place] + lines[other]),
            lambda: lines.__setitem__(slice(place, place), [lines[place]] * 300),
        )
    )()
    data[:] = b"\n".join(lines)


def _nest(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    place, depth = _place(rng, data), rng.choice((10, 200, 1500, 20_000))
    opened = rng.choice(_DEEP)
    closed = {b"[": b"]", b"{": b"}", b"(": b")", b"a {": b"}", b"<": b">"}.get(opened, b"")
    data[place:place] = opened * depth + closed * rng.choice((0, depth))


def _as_json(rng: Random, data: bytearray, _: Sequence[bytes]) -> None:
    """Put a value that must not be into a document; elsewhere a key twice."""
    try:
        document = json.loads(bytes(data))
        places = list(paths(document, most=4))
        path = rng.choice(places)
        value = rng.choice((*HOSTILE, *(copy.deepcopy(_value(document, rng.choice(places))) for _ in range(4))))
        if isinstance(document, list) and value is DELETED:
            return
        data[:] = json.dumps(edited(document, path, value)).encode()
    except (ValueError, RecursionError, IndexError):
        _repeat_key(rng, data)


def _value(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


def _repeat_key(rng: Random, data: bytearray) -> None:
    found = list(re.finditer(rb"(?m)^[ \t]*[\w.\"]+[ \t]*[=:].*$|\"\w+\": [^,{}\[\]]+,", data[:20_000]))
    if found:
        match = rng.choice(found)
        data[match.end() : match.end()] = rng.choice((b"\n", b"")) + match[0]


_Mutation = Callable[[Random, bytearray, Sequence[bytes]], None]
_BINARY: tuple[_Mutation, ...] = (
    _flip, _flip, _set_bytes, _insert, _delete, _repeat, _truncate, _splice, _extend, _size, _size, _size, _nest,
)  # fmt: skip
_WORDS: tuple[_Mutation, ...] = (
    _flip, _insert, _delete, _repeat, _truncate, _splice, _extend, _number, _number, _token, _token, _lines, _nest,
    _as_json, _as_json,
)  # fmt: skip


def mutated(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return a file as one to four mutations leave it."""
    found = bytearray(data)
    kinds = _BINARY if b"\0" in data else _WORDS
    # Half of the documents stay documents: whatever breaks the syntax is refused before anything is looked at.
    if data.lstrip()[:1] in (b"{", b"[") and rng.random() < 0.5:
        kinds = (_as_json,)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        rng.choice(kinds)(rng, found, others)
        del found[LARGEST:]
    return bytes(found)


# -- one case ----------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A parser, the seed that was damaged, and what is left of it."""

    parser: Parser
    seed: Seed
    content: bytes


def case_of(number: int, seed: int, only: Sequence[str] = ()) -> Case:
    """Return the case of this number: always the same one."""
    rng = Random(f"{seed}/{number}")
    parsers = [PARSERS[name] for name in only] or list(PARSERS.values())
    parser = rng.choices(parsers, [one.weight for one in parsers])[0]
    seeds = parser.seeds()
    chosen = rng.choice(seeds)
    others = [one.content for one in rng.sample(seeds, min(3, len(seeds)))]
    return Case(parser, chosen, mutated(rng, chosen.content, others))


def put(case: Case, folder: Path) -> Path:
    """Write the damaged file, or the dump that it is part of; return what the parser is given."""
    if case.seed.root is None:
        file = folder / case.seed.name
        file.write_bytes(case.content)
        return file
    (folder / "whole").symlink_to(case.seed.root)
    root = folder / "dump"
    shutil.copytree(case.seed.root, root, symlinks=True)
    (root / case.seed.name).write_bytes(case.content)
    return root


def _too_long(*_: object) -> None:
    raise TimeoutError(f"computed for more than {SECONDS} s")


def run_case(number: int, case: Case, folder: Path) -> Outcome:
    """Give the file to its parser, and say what came."""
    word, finding, started = "read", None, time.process_time()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        given = put(case, folder)
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        case.parser.run(given)
    except MsdumpError as error:
        word = "refused"
        try:
            said_well(error)
        except AssertionError as wrong:
            finding = Finding(number, case.parser.name, str(wrong)[:200])
    except Exception as error:  # anything else is what is searched for
        last = [frame for frame in traceback.extract_tb(error.__traceback__) if "pytest_msdump" in frame.filename]
        where = f"{Path(last[-1].filename).name}:{last[-1].lineno}" if last else ""
        finding = Finding(number, case.parser.name, f"{type(error).__name__}: {error!s:.150}".strip(), where)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = time.process_time() - started
    return Outcome(number, case.parser.name, "finding" if finding else word, seconds, finding)


def _forbid_code(event: str, _: object) -> None:
    if event in FORBIDDEN:
        raise RuntimeError(f"code of a file would have run: {event}")


def _limit_memory() -> None:
    """Let the process have so much more than it has now; what asks for more gets a MemoryError."""
    if not Path("/proc/self/statm").exists():
        return
    has = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + MEMORY_BYTES, has + MEMORY_BYTES))


@contextlib.contextmanager
def _emptied(work: Path, number: int) -> Iterator[Path]:
    folder = work / str(number)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# -- many cases --------------------------------------------------------------------------------------------------------


def _work(pipe: Connection, seed: int, only: Sequence[str], more: Sequence[Parser], work: Path) -> None:
    """Do cases as their numbers come; say before each one which it is."""
    known = list(PARSERS.values())
    PARSERS.update({parser.name: parser for parser in more})
    signal.signal(signal.SIGPROF, _too_long)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("error")
    for parser in [PARSERS[name] for name in only] or PARSERS.values():
        parser.seeds()
    # Once with whole files, so that what is loaded with the first of a kind is there.
    for number, parser in enumerate(known):
        with _emptied(work, -1 - number) as folder, contextlib.suppress(Exception):
            parser.run(put(Case(parser, parser.seeds()[0], parser.seeds()[0].content), folder))
    _limit_memory()
    sys.addaudithook(_forbid_code)
    with contextlib.suppress(EOFError):
        while True:
            for number in pipe.recv():
                pipe.send(number)
                with _emptied(work, number) as folder:
                    outcome = run_case(number, case_of(number, seed, only), folder)
                pipe.send(outcome)
            pipe.send(None)


class _Worker:
    """A process, the cases that it has still to do, and the one that it is at."""

    def __init__(self, seed: int, only: Sequence[str], more: Sequence[Parser], work: Path) -> None:
        self.pipe, other = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("spawn").Process(
            target=_work, args=(other, seed, only, more, work), daemon=True
        )
        self.process.start()
        other.close()
        self.left: list[int] = []
        self.at: int | None = None
        self.since = time.monotonic()

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def campaign(
    numbers: range,
    seed: int,
    only: Sequence[str] = (),
    *,
    workers: int = 2,
    more: Sequence[Parser] = (),
    tell: Callable[[int], None] | None = None,
) -> Iterator[Outcome]:
    """Do all cases in processes of their own, so that a crash or a hang is found and its case is known.

    `only` names the parsers to be asked, all by default; `more` are parsers beside those of the table.
    """
    PARSERS.update({parser.name: parser for parser in more})
    waiting = [list(numbers[start : start + CHUNK]) for start in range(0, len(numbers), CHUNK)][::-1]
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        running: list[_Worker] = []
        done = 0
        while waiting or running:
            while waiting and len(running) < workers:
                running.append(_Worker(seed, only, more, Path(tempfile.mkdtemp(dir=folder))))
                running[-1].left = waiting.pop()
                running[-1].pipe.send(running[-1].left)
            ready = wait([worker.pipe for worker in running], timeout=1)
            for worker in list(running):
                ended = ""
                try:
                    while worker.pipe in ready and worker.pipe.poll():
                        said = worker.pipe.recv()
                        worker.since = time.monotonic()
                        if isinstance(said, Outcome):
                            worker.left.remove(said.number)
                            worker.at = None
                            done += 1
                            yield said
                            if tell and not done % 1000:
                                tell(done)
                        elif said is None and waiting:
                            worker.left = waiting.pop()
                            worker.pipe.send(worker.left)
                        elif said is None:
                            worker.end()
                            running.remove(worker)
                            break
                        else:
                            worker.at = said
                except (EOFError, OSError):
                    worker.process.join()
                    ended = f"its process ended with {worker.process.exitcode}"
                most = WAIT_SECONDS if worker.at is not None else START_SECONDS
                if not ended and time.monotonic() - worker.since > most:
                    ended = f"waited for more than {most} s"
                if ended and worker in running:
                    if worker.at is None:
                        raise RuntimeError(f"a worker, and no case: {ended}")
                    number = worker.at
                    name = case_of(number, seed, only).parser.name
                    yield Outcome(number, name, "finding", 0.0, Finding(number, name, ended))
                    waiting.append([one for one in worker.left if one != number])
                    worker.end()
                    running.remove(worker)


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says; 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument(
        "--parser", action="append", default=[], choices=sorted(PARSERS), help="this one alone; repeatable"
    )
    parser.add_argument("--only", type=int, help="the case of this number alone, in this process, with its traceback")
    parser.add_argument("--save", type=Path, help="with --only: write the damaged file here")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args(argv)
    if options.only is not None:
        return _one(options)
    print(f"seed {options.seed}, {options.cases} cases, {len(options.parser or PARSERS)} parsers", flush=True)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    slowest: defaultdict[str, float] = defaultdict(float)
    findings: list[Finding] = []
    for outcome in campaign(
        range(options.cases),
        options.seed,
        options.parser,
        workers=options.workers,
        tell=lambda done: print(f"  {done}", file=sys.stderr, flush=True),
    ):
        counts[outcome.parser][outcome.word] += 1
        slowest[outcome.parser] = max(slowest[outcome.parser], outcome.seconds)
        if outcome.finding:
            findings.append(outcome.finding)
    print(f"{'parser':28} {'cases':>7} {'read':>7} {'refused':>8} {'found':>6} {'slowest':>9}")
    for name, words in sorted(counts.items()):
        total = sum(words.values())
        print(f"{name:28} {total:7} {words['read']:7} {words['refused']:8} {words['finding']:6} {slowest[name]:7.2f} s")
    chosen = "".join(f" --parser {name!r}" for name in options.parser)
    kinds = Counter((one.parser, one.where, one.what.partition(":")[0]) for one in findings)
    firsts = {(one.parser, one.where, one.what.partition(":")[0]): one for one in reversed(findings)}
    for kind, count in kinds.most_common():
        one = firsts[kind]
        print(f"\n{count} x {one.parser}: {one.what} ({one.where})")
        print(f"  python tests/campaign/fuzz.py --seed {options.seed}{chosen} --only {one.number}")
    print(f"\n{len(findings)} findings in {sum(sum(words.values()) for words in counts.values())} cases")
    return int(bool(findings))


def _one(options: argparse.Namespace) -> int:
    signal.signal(signal.SIGPROF, _too_long)
    case = case_of(options.only, options.seed, options.parser)
    print(f"{case.parser.name}, made of {case.seed.name} {case.seed.root or ''}: {len(case.content)} bytes")
    if options.save:
        options.save.write_bytes(case.content)
    with tempfile.TemporaryDirectory() as folder:
        try:
            _limit_memory()
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            case.parser.run(put(case, Path(folder)))
        except MsdumpError as error:
            print(f"refused: {error}")
            said_well(error)
            return 0
        except Exception:
            traceback.print_exc()
            return 1
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    print("read")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
