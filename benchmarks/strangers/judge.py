"""Judge what is paired without a map, against the truth that make.py wrote.

python -m benchmarks.strangers.judge OUT              what `msdump compare` pairs
python -m benchmarks.strangers.judge OUT --init       what the suite pairs that `msdump init` writes, too
python -m benchmarks.strangers.judge OUT --worst 5    wrong pairs, and what is missed in the worst folders, by name
python -m benchmarks.strangers.judge OUT --only llama folders whose name holds this

The exit code is 1 when a pair is wrong, or when a share is below what is asked for.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pytest_msdump.cli import main as msdump
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.suite import load_suite

from .truth import Truth, read_truth

_COMPARE, _INIT = "compare", "init"
_GOOD = "good"


@dataclass
class Judged:
    """What was found of one pair of folders, in one way.

    Parameters
    ----------
    folder, way : str
        Name, and ``"compare"`` or ``"init"``.
    truth : Truth
        The truth about it.
    quantities, paired : int
        Quantities that both sides have, and those of them of which a pair was made.
    wrong : list of (left key, right key)
        Pairs that are not true.
    missed : list of (left key, right key)
        One pair of each quantity that was not paired.
    problem : str
        Why nothing could be paired, if a folder cannot be read.
    seconds : float
        How long it took.
    fails : bool
        Whether the suite that ``init`` wrote fails when it is run.
    has_namesakes : bool
        Whether names pair what holds different quantities, which fails rightly.
    """

    folder: str
    way: str
    truth: Truth
    quantities: int = 0
    paired: int = 0
    wrong: list[tuple[str, str]] = field(default_factory=list)
    missed: list[tuple[str, str]] = field(default_factory=list)
    problem: str = ""
    seconds: float = 0.0
    fails: bool = False
    has_namesakes: bool = False


def main() -> int:
    """Print the tables; return 1 when a pair is wrong or a share too low."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path, metavar="OUT", help="what make.py was given")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="folders whose name holds this")
    parser.add_argument("--init", action="store_true", help="judge the suite that `msdump init` writes, too")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="print so many examples of each kind")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found")
    parser.add_argument("--min-good", type=float, default=0.0, metavar="SHARE", help="least share in good ports")
    parser.add_argument("--min-mistakes", type=float, default=0.0, metavar="SHARE", help="least share in the others")
    arguments = parser.parse_args()
    folders = [path.parent for path in sorted(arguments.out.glob("*/truth.json"))]
    if arguments.only:
        folders = [folder for folder in folders if any(one in folder.name for one in arguments.only)]
    if not folders:
        print(f"no truth.json below {arguments.out}; make.py makes them", file=sys.stderr)
        return 1
    found: list[Judged] = []
    for folder in folders:
        found += [judge(folder, way) for way in ((_COMPARE, _INIT) if arguments.init else (_COMPARE,))]
    for way in dict.fromkeys(one.way for one in found):
        of_way = [one for one in found if one.way == way]
        print(*table(of_way, way), sep="\n")
        if arguments.worst:
            print(*examples(of_way, arguments.worst), sep="\n")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n", encoding="utf-8")
    problems = list(_problems(found, {"good": arguments.min_good, "mistakes": arguments.min_mistakes}))
    sys.stdout.writelines(f"WRONG: {problem}\n" for problem in problems)
    return 1 if problems else 0


def judge(folder: Path, way: str) -> Judged:
    """Pair two folders, and hold the pairs to the truth."""
    truth = read_truth(folder / "truth.json")
    begin = time.perf_counter()
    found = Judged(folder.name, way, truth)
    try:
        pairs, found.fails = _by_init(folder) if way == _INIT else (_by_compare(folder), False)
    except MsdumpError as error:
        pairs, found.problem = [], str(error)
    found.seconds = round(time.perf_counter() - begin, 3)
    count(found, pairs)
    return found


def count(found: Judged, pairs: Sequence[tuple[str, str]]) -> None:
    """Hold pairs of keys to the truth.

    A quantity counts once, whichever of the files that hold it were paired. A joined projection counts once for each of
    its parts, and a pair with one part alone is wrong: it is the whole that was paired.
    """
    truth = found.truth
    allowed = {(left, right) for left, right in [*truth.pairs, *truth.also]}
    part_of = {pair: number for number, (lefts, rights) in enumerate(truth.parts) for pair in _combined(lefts, rights)}
    excused = {(left, right) for left, right in truth.namesakes}
    made = set(pairs)
    found.has_namesakes = not made.isdisjoint(excused)
    whole = {number for number in part_of.values() if made.issuperset(_combined(*truth.parts[number]))}
    unjudged = {*truth.unjudged_left}, {*truth.unjudged_right}
    true: set[tuple[str, str]] = set()
    for pair in dict.fromkeys(pairs):
        if pair in allowed or part_of.get(pair) in whole:
            true.add(pair)
        elif pair not in excused and pair[0] not in unjudged[0] and pair[1] not in unjudged[1]:
            found.wrong.append(pair)
    quantities = [*_quantities(truth), *([pair] for pair in part_of)]
    found.quantities = len(quantities)
    missed = [quantity for quantity in quantities if true.isdisjoint(quantity)]
    found.paired = found.quantities - len(missed)
    found.missed = [quantity[0] for quantity in missed]


def _combined(lefts: Sequence[str], rights: Sequence[str]) -> list[tuple[str, str]]:
    return [(left, right) for left in lefts for right in rights]


def _quantities(truth: Truth) -> list[list[tuple[str, str]]]:
    """Return the true pairs of each quantity."""
    found: dict[str, list[tuple[str, str]]] = {}
    at: dict[tuple[str, str], str] = {}
    for left, right in truth.pairs:
        names = {at.get(("left", left)), at.get(("right", right))} - {None}
        first = min((name for name in names if name is not None), default=right)
        joined = [(left, right)]
        for name in names:
            joined += found.pop(str(name), [])
        found[first] = joined
        for one, other in joined:
            at["left", one] = at["right", other] = first
    return list(found.values())


def _by_compare(folder: Path) -> list[tuple[str, str]]:
    table = {"left": str(folder / "left"), "right": str(folder / "right")}
    suite = load_suite(file=None, table=table, name="judge.py", options={}, directory=Path.cwd())
    return _pairs_of(folder, suite)


def _by_init(folder: Path) -> tuple[list[tuple[str, str]], bool]:
    """Return what the suite pairs that `msdump init` writes, and whether it fails."""
    with tempfile.TemporaryDirectory() as made:
        file = Path(made) / "msdump.toml"
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            msdump(["init", str(folder / "left"), str(folder / "right"), "-o", str(file), "-q"])
            if not file.exists():
                raise MsdumpError(said.getvalue().strip())
            code = msdump(["compare", "--config", str(file), "--report-dir", f"{made}/report"])
        suite = load_suite(file=file, table=None, options={}, directory=Path(made), name=str(file))
        return _pairs_of(folder, suite), code != 0


def _pairs_of(folder: Path, suite: Any) -> list[tuple[str, str]]:
    made = plan(suite)
    of_file = Counter(ref.source.path for dump in (made.left, made.right) for ref in dump.refs)
    return [
        (left, right)
        for pair in made.pairing.pairs
        for left in _keys(pair.left, folder / "left", of_file)
        for right in _keys(pair.right, folder / "right", of_file)
    ]


def _keys(ref: Any, side: Path, of_file: Mapping[Path, int]) -> list[str]:
    """Return the keys of a tensor's file, or of the files that it was joined from; `of_file` counts tensors."""
    paths = ref.source.pieces or (ref.source.path,)
    names = [path.resolve().relative_to(side.resolve()).as_posix() for path in paths]
    if ref.source.part is None or of_file[ref.source.path] == 1:
        return names
    return [f"{name}::{ref.key.op.label}" for name in names]


# -- What is printed ---------------------------------------------------------------------------------------------------

_KINDS: dict[str, Callable[[Truth], str]] = {
    "model": lambda truth: truth.model,
    "left": lambda truth: truth.left,
    "mistake": lambda truth: truth.mistake,
    "left style": lambda truth: truth.left_style or "(its own)",
    "right style": lambda truth: truth.right_style,
}


def table(found: Sequence[Judged], way: str) -> Iterator[str]:
    """Yield a table: a line for each model, left, mistake and style, and sums."""
    width = 26
    yield f"{way:{width}}            good            mistakes"
    yield f"{'':{width}} folders   true  of   share   true  of   share  wrong unread"
    for title, kind in _KINDS.items():
        yield f"-- by {title}"
        rows: defaultdict[str, list[Judged]] = defaultdict(list)
        for one in found:
            rows[kind(one.truth)].append(one)
        for name in sorted(rows):
            yield _row(name, rows[name], width)
    yield "-- all"
    yield _row(way, found, width)
    means = (f"{_mean(side):>7.1%}" if side else f"{'–':>7}" for side in _good_and_bad(found))
    yield f"{'mean of the folders':{width}} {'':>7} {'':>10} " + f"  {'':>10} ".join(means)
    if way == _INIT:
        run = [one for one in found if _passes_rightly(one)]
        yield f"{sum(not one.fails for one in run)} of {len(run)} suites of good pairs pass when they are run"
    slowest = max(found, key=lambda one: one.seconds)
    yield f"{sum(one.seconds for one in found):.0f} s; the slowest is {slowest.folder}, {slowest.seconds:.1f} s"


def _row(name: str, found: Sequence[Judged], width: int) -> str:
    good, bad = _good_and_bad(found)
    cells = "  ".join(_share(side) for side in (good, bad))
    wrong = sum(len(one.wrong) for one in found)
    return f"{name:{width}} {len(found):>7} {cells} {wrong:>6} {sum(bool(one.problem) for one in found):>6}"


def _share(found: Sequence[Judged]) -> str:
    paired, whole = _sums(found)
    return f"{paired:>5} {whole:>4} {paired / whole:>7.1%}" if whole else f"{'–':>5} {'–':>4} {'–':>7}"


def _mean(found: Sequence[Judged]) -> float:
    return sum(one.paired / one.quantities for one in found if one.quantities) / len(found)


def _sums(found: Sequence[Judged]) -> tuple[int, int]:
    return sum(one.paired for one in found), sum(one.quantities for one in found)


def _good_and_bad(found: Sequence[Judged]) -> tuple[list[Judged], list[Judged]]:
    is_good = [one.truth.mistake == _GOOD for one in found]
    return (
        [one for one, good in zip(found, is_good, strict=True) if good],
        [one for one, good in zip(found, is_good, strict=True) if not good],
    )


def examples(found: Sequence[Judged], most: int) -> Iterator[str]:
    """Yield the folders with most wrong pairs, then those where the largest share was missed, with names."""
    wrong = sorted((one for one in found if one.wrong), key=lambda one: -len(one.wrong))
    for one in wrong[:most]:
        yield f"{_called(one)}: {len(one.wrong)} wrong pairs"
        yield from (f"    {left} <-> {right}" for left, right in one.wrong[:most])
    missed = sorted((one for one in found if one.missed), key=lambda one: one.paired / one.quantities)
    for one in missed[:most]:
        yield f"{_called(one)}: {len(one.missed)} of {one.quantities} missed. {one.problem}".rstrip()
        yield from (f"    {left} <-> {right}" for left, right in one.missed[:most])


def _passes_rightly(one: Judged) -> bool:
    """Whether a suite has to pass: of eight bits what is right differs by more than limits allow."""
    return one.truth.mistake == _GOOD and "int8" not in one.truth.left and not (one.has_namesakes or one.problem)


def _called(one: Judged) -> str:
    return f"{one.folder} ({one.truth.left_style or 'its own names'} against {one.truth.right_style})"


def _problems(found: Sequence[Judged], least: dict[str, float]) -> Iterator[str]:
    """Yield a sentence for each thing that must not be."""
    for one in found:
        if one.wrong:
            yield f"{one.folder}: {one.way}: {len(one.wrong)} wrong pairs"
        if one.fails and _passes_rightly(one):
            yield f"{one.folder}: {one.way}: the suite of a port without a mistake fails"
    for way in dict.fromkeys(one.way for one in found):
        sides = _good_and_bad([one for one in found if one.way == way])
        for (name, wanted), side in zip(least.items(), sides, strict=True):
            paired, whole = _sums(side)
            if paired < wanted * whole:
                yield f"{way}: {name}: {paired} of {whole} are paired; {wanted:.1%} are wanted"


if __name__ == "__main__":
    sys.exit(main())
