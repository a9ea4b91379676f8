"""Runs every model in sound ways and with mistakes against itself, and prints two tables of what is said of each.

Limits are derived from the reference with rounded weights, and for bfloat16 from such a one in bfloat16. The first
wrong token is what numpy finds in the logits of both models: the first step whose largest logit is another id.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np

from benchmarks.generation.decoders import VOCABULARY, Decoder, Routes, decoder, models, perturbed
from benchmarks.generation.variants import mistakes, sound
from pytest_msdump.capabilities.generation.prompts import (
    Generations,
    derived_limits,
    judged_by,
    side_of,
    verdict_lines,
    write_both,
)
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.gate import gate, report_texts
from pytest_msdump.core.report.progress import Progress
from pytest_msdump.core.suite import load_suite

_LENGTHS = (3, 9, 17)
_OTHER = re.compile(r"(\S*prompt_\d+): .*first other token at step (\d+): id (\d+) left, (\d+) right")
_SILENT = Progress("decoders", quiet=True)
_Tokens = dict[str, tuple[int, int, int]]


class Kept:
    """A decoder whose logits are kept, as floats; the same prompts are not computed twice."""

    def __init__(self, run: Decoder) -> None:
        self.logits: dict[bytes, list[Any]] = {}
        self._run = run

    def decode(self, ids: Any, mask: Any) -> Iterator[Any]:
        """Decode, as it did before if it went on with the same ids."""
        key, running, step = ids.tobytes() + mask.tobytes(), None, 0
        kept = self.logits.setdefault(key, [])
        sent: list[Any] = []
        while True:
            if step == len(kept):
                if running is None:
                    running = self._run(ids, mask)
                    logits = next(running)
                    for chosen in sent:
                        logits = running.send(chosen)
                else:
                    logits = running.send(sent[-1])
                kept.append(logits)
            sent.append((yield kept[step]))
            step += 1

    def largest(self, prompts: list[list[int]], *, in_batch: bool) -> list[Any]:
        """Return the id of the largest logit of each step of each prompt."""
        keys = list(self.logits)
        found = []
        for row, prompt in enumerate(prompts):
            length = max(map(len, prompts)) if in_batch else len(prompt)
            size = (len(prompts) if in_batch else 1) * length
            alone = np.array(prompt, np.int64).tobytes()
            key = next(one for one in keys if len(one) == 9 * size and (in_batch or one.startswith(alone)))
            said = [one["logits"] if isinstance(one, dict) else one for one in self.logits[key]]
            steps = [one.float().numpy()[row if in_batch else 0] for one in said]
            found.append(np.stack(steps).argmax(-1))
        return found


class Verdict(NamedTuple):
    """Whether a run passes, what is said of it, and the first wrong token of each prompt: as said, and in truth."""

    passes: bool
    lines: list[str]
    said: _Tokens
    truth: _Tokens


def _first_wrong(left: Kept, right: Kept, prompts: list[list[int]], how: Generations) -> _Tokens:
    found: _Tokens = {}
    reference = right.largest(prompts, in_batch=False)
    for kind, in_batch in (("", False), ("batched.", True))[: 1 + how.is_batched]:
        for number, (one, other) in enumerate(zip(left.largest(prompts, in_batch=in_batch), reference, strict=True)):
            if (differing := np.flatnonzero(one != other)).size:
                step = int(differing[0])
                found[f"{kind}prompt_{number}"] = step, int(one[step]), int(other[step])
    return found


def _verdict(run: Decoder, right: Kept, prompts: list[list[int]], how: Generations, limits: Path) -> Verdict:
    left, folder = Kept(run), Path(mkdtemp())
    try:
        sides = side_of(left.decode, "left"), side_of(right.decode, "right")
        written = write_both(folder / "both", sides, prompts, how)
        table = {"left": "both/left", "right": "both/right", **judged_by()}
        options = {"limits": str(limits), "report_dir": str(folder / "report")}
        result = gate(plan(load_suite(file=None, table=table, options=options, directory=folder)), watch=_SILENT)
        lines = list(verdict_lines(result.report, written.tokens))
        why = list(report_texts(result.report, width=120, files=(), show="all")) if result.code else []
        said = {one[1]: (int(one[2]), int(one[3]), int(one[4])) for one in map(_OTHER.match, lines) if one}
        return Verdict(result.code == 0, [*lines, *why], said, _first_wrong(left, right, prompts, how))
    finally:
        shutil.rmtree(folder)


def _limits(right: Kept, other: Decoder, prompts: list[list[int]], tokens: int, folder: Path) -> Path:
    side = side_of(right.decode, "right")
    how = Generations(tokens, is_batched=True, perturbed=[side_of(other, "perturbed")])
    write_both(folder, (side, side), prompts, how)
    return derived_limits(folder, how)


def _table(title: str, rows: dict[str, Counter[str]]) -> None:
    columns = dict.fromkeys(name for counted in rows.values() for name in counted)
    print(f"\n{title:42}" + "".join(f"{name:>12}" for name in columns))
    for name, counted in {**rows, "all": sum(rows.values(), Counter())}.items():
        print(f"{name:42}" + "".join(f"{counted[one]:12}" for one in columns))


def main() -> None:
    """Print both tables, and each run that is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="models of each kind (default: 4)")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="llama, qwen3, mixtral, gpt2 (default: all)")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--mistake-seeds", type=int, default=1, help="of these, with mistakes (default: 1)")
    parser.add_argument("--tokens", type=int, default=12)
    parser.add_argument("--verbose", action="store_true", help="print the failure of each sound run")
    parsed = parser.parse_args()
    both = Generations(parsed.tokens, is_batched=True)
    runs: dict[str, Counter[str]] = {}
    wrong: dict[str, Counter[str]] = {}
    for seed in range(parsed.first_seed, parsed.first_seed + parsed.seeds):
        rng = np.random.default_rng(seed)
        prompts = [rng.integers(1, VOCABULARY, length).tolist() for length in _LENGTHS]
        made_of = models(seed)
        for name, model in ((one, made_of[one]) for one in parsed.models or made_of):
            routed = Routes(model, decoder(model))
            right = Kept(routed.decode)
            folder = Path(mkdtemp())
            made: dict[str, Callable[[], Any]] = {
                "float32": lambda model=model: perturbed(model, 2.0**-24),
                "bfloat16": lambda model=model: perturbed(model, 2.0**-9).bfloat16(),
            }
            limits = {
                dtype: _limits(right, decoder(make()), prompts, parsed.tokens, folder / dtype)
                for dtype, make in made.items()
            }
            for way, one in sound(model, seed).items():
                how = Generations(parsed.tokens, is_batched=one.in_batch)
                found = _verdict(one.run, right, prompts, how, limits[one.dtype])
                # An expert that flips in 16 bits: its token is set aside.
                flips = one.routes is not None and one.routes.differ_from(routed)
                row = runs.setdefault(f"{way}, other experts" if flips else way, Counter())
                row["runs"] += 1
                row["prompts"] += (1 + one.in_batch) * len(prompts)
                row["fail"] += not found.passes
                row["token wrong"] += found.said != found.truth
                if not found.passes:
                    print(f"alarm: {name}, {way} (seed {seed})")
                    print("\n".join(found.lines[: None if parsed.verbose else 2 * len(prompts)]), flush=True)
            for way, run in mistakes(model).items() if seed < parsed.first_seed + parsed.mistake_seeds else ():
                found = _verdict(run, right, prompts, both, limits["float32"])
                row = wrong.setdefault(way, Counter())
                row["runs"] += 1
                row["found"] += not found.passes
                row["with tokens"] += bool(found.truth)
                row["exact"] += found.said == found.truth
                if found.passes:
                    print(f"missed: {name}, {way} (seed {seed})")
                if found.said != found.truth:
                    print(f"other token: {name}, {way} (seed {seed}): {found.said} instead of {found.truth}")
            shutil.rmtree(folder)
            counted = sum(runs.values(), Counter()), sum(wrong.values(), Counter())
            print(f"after {name} of seed {seed}: sound {dict(counted[0])}, mistakes {dict(counted[1])}", flush=True)
    _table("sound", runs)
    if wrong:
        _table("mistakes", wrong)


if __name__ == "__main__":
    main()
