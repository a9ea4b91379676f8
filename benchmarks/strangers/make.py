"""Make pairs of folders such as strangers bring, and the truth about them.

python -m benchmarks.strangers.make OUT --pairs 300 --seed 1       every model
python -m benchmarks.strangers.make OUT --models llama --pairs 20  one of them
python -m benchmarks.strangers.make OUT --held-out --pairs 200     models and ways of naming that nothing is tuned on
python -m benchmarks.strangers.make OUT --check                    rows that may be missing in the tables of the ports
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from .folders import HOOKED, chosen, write, write_tree
from .held_out_styles import HELD_OUT_STYLES
from .mistakes import MISTAKES, NoPlaceError
from .source import Source
from .sources import HELD_OUT, MODELS, sources_of
from .styles import STYLES, Style
from .tensors import Recording
from .truth import Truth, truth_of

# So many pairs have no mistake.
_GOOD_SHARE = 0.4
# In so many both people name files in the same way.
_SAME_STYLE = 0.25
_LEAVES_SHARE = 0.2
_STEPS = "-steps"


def main() -> int:
    """Make the folders; return 1 where a table and the values of a model contradict each other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of the pairs; what it holds is replaced")
    parser.add_argument("--pairs", type=int, default=300, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the draw (default: %(default)s)")
    parser.add_argument("--models", nargs="+", choices=[*MODELS, *HELD_OUT], help="the models to draw from")
    parser.add_argument("--lefts", nargs="+", metavar="NAME", help="the lefts to draw from, e.g. torch-serving")
    parser.add_argument("--held-out", action="store_true", help="draw from what nothing is tuned on: judge it, no more")
    parser.add_argument("--check", action="store_true", help="print equal tensors that no table says to be the same")
    arguments = parser.parse_args()
    models = arguments.models or (HELD_OUT if arguments.held_out else MODELS)
    sources = {name: sources_of(name, arguments.lefts) for name in models}
    sources = {name: of_model for name, of_model in sources.items() if of_model}
    if arguments.check:
        for source in (source for of_model in sources.values() for source in of_model):
            print(*(source.wrong_rows() or [f"{source.model}/{source.left}: rows agree"]), sep="\n", flush=True)
            print(*source.missing_rows(), sep="\n", flush=True)
        return 0
    problems = make(
        arguments.out, sources, arguments.pairs, arguments.seed, HELD_OUT_STYLES if arguments.held_out else STYLES
    )
    sys.stdout.writelines(f"WRONG: {problem}\n" for problem in problems)
    return 1 if problems else 0


def make(out: Path, sources: dict[str, list[Source]], pairs: int, seed: int, styles: Mapping[str, Style]) -> list[str]:
    """Make so many pairs, named in some styles; return what is wrong with the tables."""
    begin = time.perf_counter()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    lefts: Counter[str] = Counter()
    # Both models that are trained share one place: they have five times as many tensors as the others.
    places = [[name] for name in sorted(sources) if not name.endswith(_STEPS)]
    places += [trained] if (trained := [name for name in sorted(sources) if name.endswith(_STEPS)]) else []
    for number in range(pairs):
        draw = Random(f"{seed}/{number}")
        again, place = divmod(number, len(places))
        of_model = sources[places[place][again % len(places[place])]]
        # Each left as often as the others of its model; by which mistake it comes is drawn.
        source = of_model[lefts[of_model[0].model] % len(of_model)]
        lefts[source.model] += 1
        make_pair(out, number, source, draw, styles)
    print(f"{pairs} pairs in {time.perf_counter() - begin:.0f} s")
    used = {
        (source.model, source.left): source
        for of_model in sources.values()
        for source in of_model
        if lefts[source.model]
    }
    return [problem for source in used.values() for problem in source.wrong_rows()]


def make_pair(out: Path, number: int, source: Source, draw: Random, styles: Mapping[str, Style]) -> None:
    """Make one pair of folders."""
    mistake, left = _left(source, draw)
    right_style = _style(draw, [*styles.values()])
    left_style = right_style if draw.random() < _SAME_STYLE else _style(draw, [*styles.values()])
    if left_style.name not in source.styles:
        fitting = [style for style in (STYLES | HELD_OUT_STYLES).values() if style.name in source.styles]
        left_style = _style(draw, fitting) if fitting else None
    hooked = ["leaves" if draw.random() < _LEAVES_SHARE else HOOKED[0] for _ in range(2)]
    folder = out / f"{number:03}-{source.model}-{source.left}-{mistake}"
    if left_style is None:
        left_keys = write_tree(left, folder / "left")
    else:
        left_keys = write(chosen(left, hooked[0]), left_style, folder / "left")
    right_keys = write(chosen(source.right, hooked[1]), right_style, folder / "right", start=draw.randrange(10**9))
    truth = Truth(source.model, source.left, mistake, left_style.name if left_style else "", right_style.name)
    truth_of(truth, source.meaning, left_keys, right_keys).write(folder / "truth.json")


def _left(source: Source, draw: Random) -> tuple[str, Recording]:
    """Return a port without a mistake, or with one that it has a place for; with the mistake's name."""
    mistakes = [] if draw.random() < _GOOD_SHARE else draw.sample([*MISTAKES], len(MISTAKES))
    for mistake in mistakes:
        with contextlib.suppress(NoPlaceError):
            return mistake, source.wrong(mistake, draw)
    return "good", source.good


def _style(draw: Random, styles: Sequence[Style]) -> Style:
    return draw.choices(styles, [style.share for style in styles])[0]


if __name__ == "__main__":
    sys.exit(main())
