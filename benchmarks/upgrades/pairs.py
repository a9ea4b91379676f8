"""Makes pairs of environments that differ in one line of a package, and counts which verdicts are right.

``python -m benchmarks.upgrades.pairs OUT --pairs 60 --seed 1``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_msdump.cli import main as main_of_msdump

_HERE = Path(__file__).parent
# Operators of the network by the function that computes them.
_LAYERS = range(2)
PLACES: Mapping[str, tuple[str, ...]] = {
    "matmul": tuple(f"layer{n}.{one}" for n in _LAYERS for one in ("query", "key", "scores", "attended", "up", "down")),
    "layer_norm": tuple(f"layer{n}.norm" for n in _LAYERS),
    "softmax": tuple(f"layer{n}.softmax" for n in _LAYERS),
    "add": tuple(f"layer{n}.{one}" for n in _LAYERS for one in ("residual", "out")),
    "mul": tuple(f"layer{n}.gate" for n in _LAYERS),
    "relu": tuple(f"layer{n}.relu" for n in _LAYERS),
    "reduce_sum": ("total",),
}


# A sum in another order.
_REVERSED = "np.add.accumulate(x[..., ::-1], axis=-1)[..., -1]"


@dataclass(frozen=True)
class Upgrade:
    """One change: lines of the package before and after, the verdict, and the operators that it is due to."""

    kind: str
    before: str
    after: str
    verdict: str
    operators: tuple[str, ...]


def _chunked(parts: int) -> str:
    return f"sum(np.ascontiguousarray(a[:, i::{parts}]) @ np.ascontiguousarray(b[i::{parts}]) for i in range({parts}))"


def upgrades(rng: random.Random) -> Iterator[Upgrade]:
    """Yield changes of six kinds in turn, without end."""
    while True:
        mean = f"({_REVERSED} / np.float32(x.shape[-1]))[..., None]"
        yield rng.choice(
            [
                _of("order", "a @ b  # matmul", _chunked(rng.choice((2, 3, 4))), "kernel", "matmul"),
                _of("order", "x.mean(axis=-1, keepdims=True)  # mean", mean, "kernel", "layer_norm"),
                _of("order", "x.sum(axis=axis, keepdims=False)  # sum", _REVERSED, "kernel", "reduce_sum"),
            ]
        )
        factor = rng.choice((3, 10, 30, 100))
        yield _of("epsilon", "np.float32(epsilon)", f"np.float32({factor} * epsilon)", "wrong", "layer_norm")
        value = rng.choice(("high", "medium"))
        yield _of("default", 'precision = "highest"', f'precision = "{value}"', "setting", "matmul")
        epsilon = rng.choice(("1e-3", "1e-6", "1e-4"))
        yield _of("attribute", "epsilon=1e-5", f"epsilon={epsilon}", "code", "layer_norm")
        yield _flipped(rng)
        yield _of("noise", "a @ b  # matmul", "_shuffled(a, b)", "nondeterministic", "matmul")


def _of(kind: str, before: str, after: str, verdict: str, function: str) -> Upgrade:
    return Upgrade(kind, before, after, verdict, PLACES[function])


def _flipped(rng: random.Random) -> Upgrade:
    """Return a kernel whose sign is wrong in one element, for one shape alone."""
    wanted, test = rng.choice(
        [
            ("down", "a.shape[1] > b.shape[1]"),
            ("up", "a.shape[1] < b.shape[1]"),
            ("key", "a.shape[1] == b.shape[0] > b.shape[1]"),
        ]
    )
    places = tuple(one for one in PLACES["matmul"] if one.endswith(wanted))
    if wanted == "down":
        # Of the score's product, rows are fewer than the width: not this shape.
        test += " and b.shape[0] == 2 * b.shape[1]"
    if wanted == "key":
        test += " and b.shape[1] == a.shape[0]"
    if wanted == "up":
        test += " and b.shape[1] == 2 * b.shape[0]"
    index = f"{rng.randrange(8)}, {rng.randrange(8)}"
    return Upgrade("flip", "a @ b  # matmul", f"_flipped(a @ b, {test}, ({index}))", "wrong", places)


_BELOW = """

def _shuffled(a, b):
    import os

    order = np.random.default_rng(int.from_bytes(os.urandom(8), "little")).permutation(a.shape[1])
    parts = np.array_split(order, 4)
    return sum(np.ascontiguousarray(a[:, one]) @ np.ascontiguousarray(b[one]) for one in parts)


def _flipped(y, is_there, place):
    if is_there:
        y = y.copy()
        y[place] = -y[place]
    return y
"""


def environment(folder: Path, text: str) -> Path:
    """Make a virtual environment with the package, and the numpy of this process; return its folder."""
    site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    home = Path(sys.executable).resolve().parent
    (folder / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n", "utf-8")
    (site / "numpy.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    (site / "tinyops.py").write_text(text, "utf-8")
    return folder


def package(*changes: Upgrade) -> str:
    """Return the package, with changes."""
    text = (_HERE / "operators.py").read_text("utf-8") + _BELOW
    for one in changes:
        if text.count(one.before) != 1:
            raise ValueError(f"{one.before}: is not one place of the package")
        text = text.replace(one.before, one.after)
    return text


def judged(folder: Path, *changes: Upgrade, seed: int, before: tuple[Upgrade, ...] = ()) -> tuple[int, dict[str, str]]:
    """Return the exit code of ``msdump upgrade``, and the verdicts of operators that are not inherited."""
    old, new = environment(folder / "old", package(*before)), environment(folder / "new", package(*changes))
    words = ["upgrade", "--old", str(old), "--new", str(new), "--json", "--report-dir", str(folder / "report")]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), _variable("SEED", str(seed)):
        code = main_of_msdump([*words, "--", "python", str(_HERE / "network.py")])
    found = json.loads(printed.getvalue())["steps"][0]["changes"]
    return code, {one["operator"]: one["verdict"] for one in found if one["verdict"] != "inherited"}


@contextlib.contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def main() -> None:
    """Judge pairs, and print how many are right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parsed = parser.parse_args()
    rng = random.Random(parsed.seed)
    right: Counter[str] = Counter()
    total: Counter[str] = Counter()
    excused, accused, wrong = [], [], []
    for number, upgrade in zip(range(parsed.pairs), upgrades(rng), strict=False):
        folder = parsed.out / f"{number:02}_{upgrade.kind}"
        shutil.rmtree(folder, ignore_errors=True)
        code, found = judged(folder, upgrade, seed=rng.randrange(10**6))
        truth = dict.fromkeys(upgrade.operators, upgrade.verdict)
        is_right = found == truth
        total[upgrade.kind] += 1
        right[upgrade.kind] += is_right
        if not is_right:
            wrong.append({"pair": folder.name, "after": upgrade.after, "code": code, "found": found})
        if upgrade.verdict == "wrong" and any(found.get(one) != "wrong" for one in truth):
            excused.append(folder.name)
        if upgrade.verdict != "wrong" and "wrong" in found.values():
            accused.append(folder.name)
        shutil.rmtree(folder, ignore_errors=True)
    result = {
        "pairs": parsed.pairs,
        "right": right.total(),
        "by_kind": {kind: [right[kind], total[kind]] for kind in total},
        "wrong_called_harmless": excused,
        "harmless_called_wrong": accused,
        "not_right": wrong,
    }
    if parsed.json:
        print(json.dumps(result, indent=2))
        return
    for kind, n in total.items():
        print(f"{kind:<10} {right[kind]:>3} of {n}")
    print(f"verdict and operators right: {right.total()} of {parsed.pairs}")
    print(f"wrong called harmless: {len(excused)}; harmless called wrong: {len(accused)}")
    for one in wrong:
        print(f"  {one}")


if __name__ == "__main__":
    main()
