"""Add evidence, views and permissions to comparisons that fail; none of them may pass unjudged.

``python tests/campaign/law.py --cases 5000 --seed N`` takes failing comparisons of every kind of side, adds each
capability in an honest form and in dishonest ones, and asks ``msdump`` in this process. A permission that a person
named may pass, and is then told with its factor; all else ends in a failure, an error or a refusal. 300 sound pairs of
strangers must pass beside that. What is wrong is printed with the command that makes that case again; exit code 1 then.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    # Run by hand, Python looks for modules beside this file; the tests' own place is one folder up.
    sys.path[0] = str(Path(__file__).parents[1])

import numpy as np
from campaign.law_evidence import EVIDENCE
from campaign.law_forms import Form
from campaign.law_permits import PERMITS
from campaign.law_sides import STORES, Comparison, comparison
from campaign.law_views import VIEWS
from campaign.run import SECONDS, HungError
from campaign.strangers import STRANGERS, Stranger
from campaign.trials import FAILING, NotHereError, Outcome, by_command

from pytest_msdump.core.report.json_report import read_json

FORMS = EVIDENCE + VIEWS + PERMITS
SOUND = 300
WRONG = ("silent pass", "unnamed permission", "refused", "false alarm", "crash")
# "by a factor of 3.4", "12 x looser", "3 × the limit"
_FACTOR = re.compile(r"\d(?:[\d.,]*(?:e[+-]?\d+)?)\s?(?:×|x\b|times)|factor")


class Result(NamedTuple):
    """What came of a case: "ok", "not here" or one of `WRONG`."""

    number: int
    form: str
    outcome: str
    sentence: str = ""
    compared: str = ""
    permitted: bool = False


def judged(case: Comparison, form: Form, answer: Outcome) -> tuple[str, str]:
    """Hold an answer to what it must be: "ok" or one of `WRONG`, and why."""
    if answer.code not in (0, 1, 4) or "Traceback (most recent call last)" in answer.text:
        return "crash", f"exit code {answer.code}: {answer.text.strip()[-300:]}"
    if answer.code == 4:
        return (
            ("refused", answer.text.strip()[-400:])
            if form.is_honest and "replay" not in form.capability
            else ("ok", "")
        )
    mine = [one for one in answer.records if case.wrong in re.split("[:/.]", one["left"]["address"])]
    verdicts = sorted({one["verdict"] for one in mine})
    if answer.code == 1:
        passed = [one for one in verdicts if one not in FAILING]
        if passed and not (form.permits or form.may):
            return "silent pass", f"the tensor is {passed[0]}, though the comparison fails for another reason"
        return "ok", ""
    if form.may == "warn" and verdicts == ["warn"]:
        return "ok", ""
    if form.may == "a share":
        told = _share_is_told(case)
        return ("ok", "") if told else ("silent pass", f"verdicts {verdicts}, and no share that was left out")
    if not form.permits:
        return "silent pass", f"exit code 0, verdicts {verdicts or 'none'}"
    said = answer.text + json.dumps(mine)
    # Of integers, which are to be equal, nothing is by a factor.
    is_named = any(word in said for word in form.permits) and (case.wrong == "ids" or _FACTOR.search(answer.text))
    if not is_named:
        return "unnamed permission", f"verdicts {verdicts}: {answer.text.strip()[-400:]}"
    return "ok", ""


def _share_is_told(case: Comparison) -> bool:
    results = read_json(case.root / "by-command" / "results.json")
    shares = [value for value in _numbers(results["coverage"]) if 0 < value < 1]
    return bool(shares or results["counts"].get("unmatched_right"))


def _numbers(values: Any) -> Iterator[float]:
    if isinstance(values, dict):
        for value in values.values():
            yield from _numbers(value)
    elif isinstance(values, float):
        yield values


def ask(root: Path, seed: int, number: int) -> Result:
    """Make a case, ask, and judge the answer."""
    form = FORMS[number % len(FORMS)]
    rng = np.random.default_rng([seed, number])
    told = ""
    try:
        with _at(root):
            case = _drawn(root, rng, form)
            told = case.told
            case.write()
            answer = case.ask(case) if case.ask is not None else by_command(case, *case.arguments)
            outcome, sentence = judged(case, form, answer)
    except NotHereError:
        return Result(number, form.title, "not here", compared=told)
    except SystemExit as error:
        outcome, sentence, answer = ("ok", "", None) if error.code in (1, 4) else ("crash", f"exit {error.code}", None)
    except Exception:
        outcome, sentence, answer = "crash", traceback.format_exc()[-900:], None
    permitted = bool(answer is not None and answer.code == 0 and form.permits)
    return Result(number, form.title, outcome, sentence, told, permitted)


def _drawn(root: Path, rng: np.random.Generator, form: Form) -> Comparison:
    """Draw comparisons until the form can be added to one."""
    for _ in range(30):
        case = comparison(root, rng, [STORES[name] for name in form.stores])
        if case.excess < form.least:
            continue
        try:
            form.apply(case)
        except NotHereError:
            continue
        return case
    raise NotHereError


@contextmanager
def _at(root: Path) -> Iterator[None]:
    """Work in a folder, for a limited time; caches are not used where this variable is set."""

    def hung(*_: Any) -> None:
        raise HungError(f"no answer in {SECONDS} s")

    before, ci = Path.cwd(), os.environ.pop("CI", None)
    root.mkdir(parents=True)
    os.chdir(root)
    signal.signal(signal.SIGALRM, hung)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        os.chdir(before)
        if ci is not None:
            os.environ["CI"] = ci


def ask_stranger(root: Path, seed: int, number: int) -> Result:
    """Make a sound pair and ask; anything but a pass is a false alarm."""
    kind: Stranger = STRANGERS[number % len(STRANGERS)]
    try:
        with _at(root):
            answer = kind.ask(root, np.random.default_rng([seed, 7, number]))
    except Exception:
        return Result(number, kind.name, "crash", traceback.format_exc()[-900:])
    if answer.code == 0:
        return Result(number, kind.name, "ok")
    return Result(number, kind.name, "false alarm", f"{answer.named}: {answer.sentence or answer.text[-300:]}")


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=5000, help="how many (default: 5000)")
    parser.add_argument("--sound", type=int, default=SOUND, help=f"sound pairs of strangers (default: {SOUND})")
    parser.add_argument("--seed", type=int, default=0, help="which cases (default: 0)")
    parser.add_argument("--forms", default="", metavar="TEXT", help="forms whose name has this text (default: all)")
    parser.add_argument("--only", type=int, metavar="CASE", help="run this case alone; keep its files")
    parser.add_argument("--only-sound", type=int, metavar="CASE", help="run this sound pair alone; keep its files")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; return 1 when an answer was wrong."""
    options, started = parsed(arguments), time.monotonic()
    if options.only is not None or options.only_sound is not None:
        root = Path(tempfile.mkdtemp(prefix="campaign_")) / "case"
        asked, number = (ask, options.only) if options.only is not None else (ask_stranger, options.only_sound)
        result = asked(root, options.seed, number)
        print(f"{result.outcome}: {result.form}; {result.compared}: {result.sentence}\nfiles: {root}")
        return int(result.outcome in WRONG)
    results, sound = [], []
    with tempfile.TemporaryDirectory(prefix="campaign_") as folder:
        for kept, asked, count, flag in (
            (results, ask, options.cases, ""),
            (sound, ask_stranger, options.sound, "-sound"),
        ):
            for number in range(count):
                if asked is ask and options.forms not in FORMS[number % len(FORMS)].title:
                    continue
                root = Path(folder) / "case"
                result = asked(root, options.seed, number)
                shutil.rmtree(root)
                kept.append(result)
                if result.outcome in WRONG:
                    print(f"{result.outcome.upper()}: {result.form}; {result.compared}\n  {result.sentence}")
                    print(f"  python tests/campaign/law.py --seed {options.seed} --only{flag} {number}", flush=True)
    counts = Counter(result.outcome for result in results + sound)
    tried = sum(result.outcome != "not here" for result in results)
    print(
        f"law, seed {options.seed}: {tried} failing comparisons with {len({one.form for one in results})} forms, "
        f"{sum(one.permitted for one in results)} of them passed by a named permission; "
        f"{counts['false alarm']} false alarms of {len(sound)}; {', '.join(f'{counts[one]} {one}' for one in WRONG)}; "
        f"{time.monotonic() - started:.0f} s"
    )
    return int(any(counts[one] for one in WRONG))


if __name__ == "__main__":
    sys.exit(main())
