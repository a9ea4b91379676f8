"""One pair of large files: what a comparison costs beside reading them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import replace
from pathlib import Path

from measuring.figures import Case, Figure, Limit

from cases.environments import vendor_script
from cases.setting import (
    FALLBACK,
    IMPORTS_NUMPY,
    NO_KERNEL,
    REPORT,
    NotTimedError,
    Program,
    Setting,
    msdump,
    numpy_start,
    without_kl,
)
from pytest_msdump.core.report.json_report import read_json

__all__ = ["ITEM_BYTES", "all_differ", "pair", "pair1g"]

_HERE = Path(__file__).parent
_SIDES = ("left.npy", "right.npy")
ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
# What neither the vendor nor numpy can load.
_OURS_ALONE = "bfloat16"
# Integers are held to be equal unless a limit says otherwise.
_LIMITS = {"int8": ("--threshold", "max_absolute_error=1")}

FLOOR = "reads both files"
START = "msdump compare of one element"
OURS = "msdump compare"
OURS_NINE = "msdump compare --without kl_divergence"
NUMPY = "msdump compare, MSDUMP_KERNEL=numpy"
NUMPY_NINE = "msdump compare --without kl_divergence, MSDUMP_KERNEL=numpy"
VENDOR = "the vendor's file_compare"
VENDOR_STARTS = "only starts: the vendor's file_compare"
ALLCLOSE = "numpy.testing.assert_allclose"
LOADED = "{}, modules loaded"

_KL = "kl_divergence"
_NINE = ("--without", _KL)
_TEN = {
    "cosine_similarity",
    "max_absolute_error",
    "accumulated_relative_error",
    "relative_euclidean_distance",
    _KL,
    "standard_deviation",
    "mean_absolute_error",
    "root_mean_square_error",
    "max_relative_error",
    "mean_relative_error",
}
_VARIANTS: tuple[tuple[str, tuple[str, ...], Mapping[str, str] | None], ...] = (
    (OURS, (), None),
    (OURS_NINE, _NINE, None),
    (NUMPY, (), FALLBACK),
    (NUMPY_NINE, _NINE, FALLBACK),
)
_OVER_FLOOR = (
    ("kernel, without KL", 4.2, LOADED.format(OURS_NINE)),
    ("kernel, all metrics", 8, LOADED.format(OURS)),
    ("fallback, without KL", 18, LOADED.format(NUMPY_NINE)),
    ("fallback, all metrics", 28, LOADED.format(NUMPY)),
)
# Our command alone starts no threads of numpy's linear algebra, which take time of a processor before they sleep.
_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1"}
_UNDER_OTHERS = (
    ("kernel, without KL", 20, VENDOR, LOADED.format(OURS_NINE)),
    ("kernel, without KL", 4, ALLCLOSE, LOADED.format(OURS_NINE)),
    ("kernel, all metrics", 1.5, ALLCLOSE, LOADED.format(OURS)),
)


def pair(dtype: str, setting: Setting) -> Iterator[Case]:
    """Two files of 33,554,433 elements: one more than a power of two, as tensors never end with a block."""
    count = (1 << 18 if setting.small else 128 << 18) + 1
    _make(setting.folder, dtype, count)
    programs = {FLOOR: _inside("reads"), IMPORTS_NUMPY: numpy_start(), **_ours(setting, dtype, count)}
    if dtype != _OURS_ALONE:
        programs |= _vendor(setting)
        programs[ALLCLOSE] = _inside("allclose")
    if setting.peers:
        programs["torch.testing.assert_close"] = _inside("torch", setting.peers)
        if dtype != _OURS_ALONE:
            programs["Polygraphy's CompareFunc.simple"] = _inside("polygraphy", setting.peers)
    figures = setting.figures(programs)
    limits = _limits(setting, figures) if dtype == "float32" else []
    rates = {name: each.cpu_seconds / count for name, _, _ in _VARIANTS if (each := figures.get(LOADED.format(name)))}
    if VENDOR in figures:
        rates[VENDOR] = figures[VENDOR].cpu_beyond / count
    yield Case(f"pair-{dtype}", _title(dtype, count), figures, limits, count, FLOOR, rates=rates)


def pair1g(setting: Setting) -> Iterator[Case]:
    """Two files of 1 GiB: the peak is what counts."""
    count = 1 << 19 if setting.small else 1 << 28
    _make(setting.folder, "float32", count)
    programs = {FLOOR: _inside("reads"), IMPORTS_NUMPY: numpy_start()}
    programs |= _ours(setting, "float32", count, loaded=False)
    figures = setting.figures(programs)
    limits = _peak(figures, "2 × 1 GiB")
    yield Case("pair1g", _title("float32", count), figures, limits, pairs=count, floor=FLOOR)


def _title(dtype: str, count: int) -> str:
    return (
        f"two files of {count:,} elements of {dtype} that all differ, {count * ITEM_BYTES[dtype] / 2**20:,.4g} MiB each"
    )


def _make(folder: Path, dtype: str, count: int) -> None:
    subprocess.run([sys.executable, _HERE / "made_pairs.py", folder, dtype, str(count)], check=True)


def _ours(setting: Setting, dtype: str, count: int, *, loaded: bool = True) -> dict[str, Program]:
    """Our command as it is typed, of one element, and once more where all of its modules are loaded."""
    limits = _LIMITS.get(dtype, ())
    nine = without_kl(setting.folder)
    programs = {START: Program(msdump("compare", *_one_element(setting, dtype), *limits), IMPORTS_NUMPY)}
    for name, without, environment in _VARIANTS:
        if without and not nine:
            continue
        words = (*limits, *without)
        check = all_differ(setting.folder, count, _TEN - {*without})
        programs[name] = Program(msdump("compare", *_SIDES, *words), IMPORTS_NUMPY, environment, check=check)
        if loaded:
            command = [*_inside("ours").command, *words]
            alone = {**_NO_THREADS, **(environment or {})}
            programs[LOADED.format(name)] = Program(command, environment=alone, check=check)
    return programs


def _one_element(setting: Setting, dtype: str) -> list[Path]:
    """Make the smallest pair there is: what a comparison of it takes is the start of the command."""
    folder = setting.folder / "one"
    folder.mkdir(exist_ok=True)
    _make(folder, dtype, 1)
    return [folder / side for side in _SIDES]


def all_differ(folder: Path, count: int, metrics: Set[str]) -> Callable[[str], None]:
    """Hold that these metrics were measured of elements that all differ: who skips some is fast for nothing."""

    def check(_: str) -> None:
        path = folder / REPORT / "results.json"
        tensors = read_json(path)["tensors"] if path.exists() else []
        found = [(each["elements"], each["differing"]) for each in tensors]
        if found != [(count, count)]:
            raise NotTimedError(f"{count} elements differ, but (elements, differing) is {found}")
        (tensor,) = tensors
        if {name for name, value in tensor["metrics"].items() if value is not None} & _TEN != metrics:
            raise NotTimedError(f"{sorted(metrics)} should be measured, but the metrics are {tensor['metrics']}")

    return check


def _vendor(setting: Setting) -> dict[str, Program]:
    if not setting.vendor:
        return {}
    command: list[str | Path] = [setting.vendor, vendor_script(setting.vendor), "file_compare"]
    (setting.folder / "vendor").mkdir(exist_ok=True)
    words = ["-m", _SIDES[0], "-g", _SIDES[1], "-out", "vendor"]
    return {
        VENDOR_STARTS: Program([*command, "-h"], only_starts=True),
        VENDOR: Program([*command, *words], VENDOR_STARTS, check=_eight),
    }


def _eight(said: str) -> None:
    """Hold that the vendor's eight numbers are there."""
    if "CosineSimilarity" not in said or "MeanRelativeError" not in said:
        raise NotTimedError(f"{VENDOR}:\n{said}")


def _inside(work: str, python: str | Path = sys.executable) -> Program:
    return Program([python, _HERE / "in_process.py", work, *_SIDES])


def _limits(setting: Setting, figures: Mapping[str, Figure]) -> list[Limit]:
    """The lines of acceptance 1 and 2."""
    floors = [
        _ratio(setting, figures, Limit("1", f"CPU over the floor's, modules loaded: {text}", bound, None), ours, FLOOR)
        for text, bound, ours in _OVER_FLOOR
    ]
    others = [
        _ratio(
            setting,
            figures,
            Limit("2", f"CPU of {over} over ours, beyond imports: {text}", bound, None, at_least=True),
            over,
            ours,
        )
        for text, bound, over, ours in _UNDER_OTHERS
    ]
    start = Limit("1", f"seconds beyond import numpy: {START}", 0.2, _seconds_beyond(figures), "s")
    return [*floors, start, *_peak(figures, "2 × 128 MiB"), *others]


def _seconds_beyond(figures: Mapping[str, Figure]) -> float:
    return figures[START].seconds - figures[IMPORTS_NUMPY].seconds


def _ratio(setting: Setting, figures: Mapping[str, Figure], limit: Limit, over: str, under: str) -> Limit:
    """Fill in one program's CPU over another's, or why there is no such figure."""
    if "kernel" in limit.text and not setting.kernel:
        return replace(limit, why=NO_KERNEL)
    missing = [program for program in (over, under) if program not in figures]
    if missing:
        return replace(limit, why=f"no {missing[0]} here")
    return replace(limit, measured=figures[over].cpu_beyond / figures[under].cpu_beyond)


def _peak(figures: Mapping[str, Figure], size: str) -> list[Limit]:
    return [
        Limit("1", f"peak above import numpy, {size}: {program}", 40, figures[program].mib_beyond, "MiB")
        for program in (OURS, NUMPY)
    ]
