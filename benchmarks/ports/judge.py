"""Judge what is paired, suggested and named as cause, against the truth that make.py wrote.

python benchmarks/ports/judge.py OUT                     every port below OUT
python benchmarks/ports/judge.py OUT --only vit --mapped blame alone: pairs are taken from the truth
python benchmarks/ports/judge.py OUT --wrong             every wrong pair and every cause that was not named
python benchmarks/ports/judge.py OUT --sketches          the same of sketches of both sides, beside the full dumps
python benchmarks/ports/judge.py OUT --limits            limits from `make.py --perturbed` in the place of strict

The exit code is 1 when a pair or a suggestion is wrong, when a correct port fails, or when a share is below its limit.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from truth import Truth, operator_of, read_truth, spelled

from pytest_msdump.capabilities.record.writer import sketch_dump
from pytest_msdump.capabilities.suggest.partners import suggest_partners
from pytest_msdump.core.compare.opening import index
from pytest_msdump.core.compare.planning import Plan, plan
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.model.record import RoleReason
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.report.coverage import first_failing
from pytest_msdump.core.suite import load_suite

PROFILES = ("default", "strict")
# In the place of a profile: limits that one perturbed run of the reference shows.
LIMITS = "limits"
# By option: the share that must be right at least, and of what.
LEAST = {
    "pairs": (0.95, "right tensors that exist and have a true partner"),
    "suggested": (0.9, "the same in wrong ports once --suggest has spoken"),
    "causes": (0.7, "mistakes that could be seen and that are named, where a port has one"),
    "both": (0.65, "the same where a port has two mistakes"),
}
# The relative Euclidean distance that is allowed; by derived limits a mistake is seen or missed.
SEEN = {"strict": 1e-4, LIMITS: 0.0}
# How many operators a reason names of a kind; the rest is a number.
MOST_NAMED = 4


@dataclass
class Judged:
    """What was found of one port.

    Parameters
    ----------
    case, port : str
        Names.
    exist, paired, wrong : int
        Right tensors whose value exists on the left, those of them with a true partner, and pairs that are wrong.
    folded : int
        Right tensors that are not among these, since their operator passes on what it is given.
    suggested, suggested_wrong : int
        Right tensors with a true partner once ``msdump match --suggest`` has spoken, and its wrong entries.
    failing : dict of str to int
        Failing tensors by profile.
    causes, named, others : int
        Mistakes that the last profile sees, those of them that were named as cause there, and causes that are none.
    is_good : bool
        Whether the port is correct.
    blamed : dict of str to list of str
        By profile the first failing operator, if there is one, and the causes.
    remarks : list of str
        What is wrong, one by one.
    """

    case: str
    port: str
    exist: int = 0
    paired: int = 0
    wrong: int = 0
    folded: int = 0
    suggested: int = 0
    suggested_wrong: int = 0
    failing: dict[str, int] = field(default_factory=dict)
    causes: int = 0
    named: int = 0
    others: int = 0
    is_good: bool = False
    blamed: dict[str, list[str]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def main() -> int:
    """Print a line for each port, and sums."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path, metavar="OUT", help="what make.py was given")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="ports whose CASE/PORT holds this")
    parser.add_argument("--mapped", action="store_true", help="compare the true pairs, to judge blame alone")
    parser.add_argument("--no-suggest", action="store_true", help="leave --suggest out, which takes most of the time")
    parser.add_argument("--wrong", action="store_true", help="print every wrong pair and every cause that was missed")
    parser.add_argument("--sketches", action="store_true", help="judge sketches of both sides, and the dumps as well")
    parser.add_argument("--limits", action="store_true", help="judge with limits from CASE/perturbed, too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found")
    for name, (share, what) in LEAST.items():
        text = f"least share of {what} (default: {share})"
        parser.add_argument(f"--min-{name}", type=float, default=share, metavar="SHARE", help=text)
    arguments = parser.parse_args()
    chosen = [
        path
        for path in sorted(arguments.out.glob("*/*/truth.json"))
        if not arguments.only or any(part in f"{path.parts[-3]}/{path.parts[-2]}" for part in arguments.only)
    ]
    if not chosen:
        print(f"no truth.json below {arguments.out}; make.py makes them", file=sys.stderr)
        return 1
    width = max(len(f"{path.parts[-3]}/{path.parts[-2]}") for path in chosen)
    print(f"{'':{width}}  pairs               --suggest     failing          causes")
    profiles = (PROFILES[0], LIMITS) if arguments.limits else PROFILES
    print(f"{'case/port':{width}}  true  exist  wrong   true  wrong   default {profiles[-1]}   named  of  others")
    found = []
    same = dict.fromkeys(profiles, 0)
    with tempfile.TemporaryDirectory() as made:
        for path in chosen:
            how = {"mapped": arguments.mapped, "suggests": not arguments.no_suggest, "profiles": profiles}
            if arguments.limits:
                how["limits"] = _limits(path.parents[1], Path(made))
            one = judge(path.parent, **how, sketches=Path(made) if arguments.sketches else None)
            found.append(one)
            print(_line(one, width), flush=True)
            if arguments.sketches:
                full = judge(path.parent, mapped=arguments.mapped, suggests=False)
                one.remarks += _differences(one, full)
                for profile in profiles:
                    same[profile] += one.blamed[profile] == full.blamed[profile]
            if arguments.wrong:
                sys.stdout.writelines(f"    {remark}\n" for remark in one.remarks)
    print(*_sums(found), sep="\n")
    if arguments.sketches:
        told = ", ".join(
            f"{count} of {len(found)} ({count / len(found):.1%}) in {name}" for name, count in same.items()
        )
        print(f"first failing operator and causes as with full dumps: {told}")
    if arguments.json:
        arguments.json.write_text(json.dumps([vars(one) for one in found], indent=1) + "\n", encoding="utf-8")
    least = {name: getattr(arguments, f"min_{name}") for name in LEAST}
    if arguments.mapped or arguments.no_suggest:
        del least["suggested"]
    if arguments.mapped:
        del least["pairs"]
    problems = [*_problems(found, least)]
    sys.stdout.writelines(f"WRONG: {problem}\n" for problem in problems)
    return 1 if problems else 0


def judge(
    folder: Path,
    *,
    mapped: bool,
    suggests: bool,
    sketches: Path | None = None,
    profiles: Sequence[str] = PROFILES,
    limits: Path | None = None,
) -> Judged:
    """Compare one port with its reference, or sketches of both made below `sketches`, and hold it to the truth."""
    truth = read_truth(folder / "truth.json")
    found = Judged(truth.case, truth.port, exist=len(truth.pairs), is_good=not truth.causes)
    entries = list(_entries(truth)) if mapped else []
    sides = (folder / "left", folder.parent / "right")
    if sketches is not None:
        sides = (
            _sketched(sides[0], sketches / truth.case / truth.port),
            _sketched(sides[1], sketches / truth.case / "right"),
        )
    for profile in profiles:
        planned = plan(_suite(folder, sides, profile, entries, limits))
        if profile == profiles[0]:
            folded = _folded(planned, truth)
            found.folded, found.exist = len(folded), found.exist - len(folded)
            pairs = [(spelled(pair.left), spelled(pair.right)) for pair in planned.pairing.pairs]
            true, found.wrong = _against(truth, pairs, found.remarks, "pair")
            found.paired = len(true)
            if suggests and not mapped:
                entries_found = pairs + list(_suggested(planned))
                true, wrong = _against(truth, entries_found, found.remarks, "suggestion")
                found.suggested = len(true - folded)
                found.suggested_wrong = wrong - found.wrong
        records = build_report(planned, compare_plan(planned)).records
        first = first_failing(records)
        causes = sorted({record.left.address.rsplit(":", 2)[0] for record in records if record.role == "cause"})
        found.blamed[profile] = [*([_operator(first.left)] if first else []), *causes]
        found.failing[profile] = sum(record.fails for record in records)
        if profile == profiles[-1]:
            _judge_causes(truth, records, found, SEEN[profile])
        if not truth.causes:
            found.remarks += [f"{profile}: fails: {one.left.address}" for one in records if one.fails]
    return found


def _folded(planned: Plan, truth: Truth) -> set[str]:
    """Return the right tensors without a partner whose operators pass on what they, or modules inside, were given."""
    folds = ("passed_on", "returns_inner")
    alone = {spelled(one.ref) for one in planned.pairing.unmatched_right if one.why.code in folds}
    return {right for _, right in truth.pairs} & alone


def _sketched(dump: Path, made: Path) -> Path:
    """Return a folder with the sketches of a dump, which is made where there is none."""
    if not made.exists():
        sketch_dump(index(dump), made)
    return made


def _differences(sketched: Judged, full: Judged) -> Iterator[str]:
    """Yield what sketches blame, and what full dumps do, where these differ."""
    for profile, blamed in full.blamed.items():
        if sketched.blamed[profile] != blamed:
            yield f"{profile}: by sketches {sketched.blamed[profile]}, by full dumps {blamed}"


def _limits(case: Path, made: Path) -> Path:
    """Return a limits file of a case, which is made where there is none."""
    from pytest_msdump.capabilities.calibrate.engine import calibrate, write_limits

    path = made / f"{case.name}.limits.json"
    if not path.exists():
        write_limits(path, calibrate(case / "right", [case / "perturbed"]))
    return path


def _suite(
    folder: Path, sides: tuple[Path, Path], profile: str, entries: Sequence[dict[str, Any]], limits: Path | None
) -> Any:
    case = json.loads((folder.parent / "case.json").read_text(encoding="utf-8"))
    chosen = {"limits": str(limits)} if profile == LIMITS else {"profile": profile}
    table = {"left": str(sides[0]), "right": str(sides[1]), "map": entries, **chosen}
    return load_suite(file=None, table={**table, **case["suite"]}, name="judge.py", options={}, directory=Path.cwd())


def _entries(truth: Truth) -> Iterator[dict[str, Any]]:
    """Yield map entries for the true pairs; each left once; a map cannot name calls of one module."""
    taken: set[str] = set()
    every = (one for entry in truth.values for one in (*entry["left"], *entry["right"]))
    repeated = {operator_of(one) for one in every if "@" in one}
    for left, right in truth.pairs:
        if (
            left not in taken
            and not {operator_of(left), operator_of(right)} & repeated
            and not {*"@#"} & {*left, *right}
        ):
            taken.add(left)
            yield {"left": left, "right": right, "reshape": True}


def _suggested(planned: Plan) -> Iterator[tuple[str, str]]:
    """Yield the clear suggestions of ``msdump match --suggest``, as pairs of addresses."""
    try:
        found = suggest_partners(planned)
    except MsdumpError:
        return
    for one in found.suggestions:
        if one.is_clear:
            yield spelled(found.left[one.fits[0].left]), spelled(found.right[one.right])


def _against(truth: Truth, pairs: Iterable[tuple[str, str]], remarks: list[str], what: str) -> tuple[set[str], int]:
    """Return the right tensors that have a true partner, and how many pairs are wrong."""
    value_of_left = {one: number for number, entry in enumerate(truth.values) for one in entry["left"]}
    value_of_right = {one: number for number, entry in enumerate(truth.values) for one in entry["right"]}
    not_judged = {*truth.unjudged_left}, {*truth.unjudged_right}
    true: set[str] = set()
    wrong = 0
    for left, right in pairs:
        if left in not_judged[0] or right in not_judged[1] or ":output:" not in right:
            continue
        if right in value_of_right and value_of_left.get(left) == value_of_right[right]:
            true.add(right)
        else:
            wrong += 1
            remarks.append(f"wrong {what}: {left} <-> {right}")
    return true, wrong


def _judge_causes(truth: Truth, records: Sequence[Any], found: Judged, seen: float) -> None:
    """Count the mistakes that are named as causes, and causes that are no mistake."""
    named: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for one in records:
        if one.role == "cause":
            named[_operator(one.left), _operator(one.right)] |= _not_compared(one.role_why)
    explained: set[tuple[str, str]] = set()
    for cause in truth.causes:
        is_seen = cause.apart is None or cause.apart > seen
        found.causes += is_seen
        lefts = {*cause.left, *(pair[0].rsplit(":", 2)[0] for pair in cause.seen_at)}
        rights = {*cause.right, *(pair[1].rsplit(":", 2)[0] for pair in cause.seen_at)}
        hits = {
            one for one, before in named.items() if one[0] in lefts or one[1] in rights or before & (lefts | rights)
        }
        explained |= hits
        found.named += bool(hits) and is_seen
        if not hits and is_seen:
            found.remarks.append(f"missed cause: {cause.mistake} in {cause.left} / {cause.right}")
    found.others = len(named.keys() - explained)
    found.remarks += [f"no cause: {left} <-> {right}" for left, right in sorted(named.keys() - explained)]


def _not_compared(why: RoleReason | None) -> set[str]:
    """Return the operators without a partner that the reason of a cause names: any of them may be the cause instead."""
    if why is None:
        return set()
    suspects = [one.operator for one in why.suspects if one.before is None and one.state == "no partner"]
    return {*suspects[:MOST_NAMED], *why.left_out[:MOST_NAMED]}


def _operator(tensor: Any) -> str:
    """Return a tensor's operator in the truth's spelling."""
    operator = tensor.address.rsplit(":", 2)[0]
    return f"{operator}@{tensor.at.occurrence}" if tensor.at.occurrence else operator


def _line(one: Judged, width: int) -> str:
    pairs = f"{one.paired:>4} {one.exist:>6} {one.wrong:>6}"
    suggested = f"{one.suggested:>5} {one.suggested_wrong:>6}"
    default, last = one.failing.values()
    failing = f"{default:>7} {last:>6}"
    causes = f"{one.named:>5} {one.causes:>3} {one.others:>7}"
    return f"{one.case + '/' + one.port:{width}}  {pairs}  {suggested}   {failing}   {causes}"


def _sums(found: Sequence[Judged]) -> Iterator[str]:
    """Yield what the table says as a whole."""
    good, bad = _good_and_bad(found)
    said = {name: f"{parts} of {whole}" + (f" ({parts / whole:.1%})" if whole else "")
            for name, (parts, whole) in _shares(found).items()}  # fmt: skip
    yield ""
    yield (
        f"pairs: {said['pairs']} of those that exist; {sum(one.wrong for one in found)} wrong; "
        f"{sum(one.folded for one in found)} more pass on what they are given"
    )
    yield f"--suggest on wrong ports: {said['suggested']}; {sum(one.suggested_wrong for one in bad)} wrong"
    alarms = {profile: sum(one.failing[profile] for one in good) for profile in found[0].failing}
    yield f"false alarms on {len(good)} correct ports: " + ", ".join(
        f"{count} in {name}" for name, count in alarms.items()
    )
    yield (
        f"causes named in {[*alarms][-1]}, of mistakes that it could see: {said['causes']} alone, "
        f"{said['both']} two in a port; {sum(one.others for one in bad)} causes that are none"
    )


def _problems(found: Sequence[Judged], least: Mapping[str, float]) -> Iterator[str]:
    """Yield a sentence for each thing that must not be, and for each share below its limit."""
    for one in found:
        name = f"{one.case}/{one.port}"
        if one.wrong or one.suggested_wrong:
            yield f"{name}: {one.wrong} wrong pairs, {one.suggested_wrong} wrong suggestions"
        if one.is_good and any(one.failing.values()):
            yield f"{name}: a correct port, and {max(one.failing.values())} tensors fail"
    shares = _shares(found)
    for name, wanted in least.items():
        parts, whole = shares[name]
        if parts < wanted * whole:
            yield f"{name}: {parts} of {whole} {LEAST[name][1]}; {wanted:.1%} are wanted"


def _shares(found: Sequence[Judged]) -> dict[str, tuple[int, int]]:
    """Return how many are right, and of how many, by the names of `LEAST`."""
    _, bad = _good_and_bad(found)
    counted = {
        "pairs": (found, "paired", "exist"),
        "suggested": (bad, "suggested", "exist"),
        "causes": ([one for one in bad if one.causes < 2], "named", "causes"),
        "both": ([one for one in bad if one.causes > 1], "named", "causes"),
    }
    return {
        name: (sum(getattr(one, part) for one in ports), sum(getattr(one, whole) for one in ports))
        for name, (ports, part, whole) in counted.items()
    }


def _good_and_bad(found: Sequence[Judged]) -> tuple[list[Judged], list[Judged]]:
    return [one for one in found if one.is_good], [one for one in found if not one.is_good]


if __name__ == "__main__":
    sys.exit(main())
