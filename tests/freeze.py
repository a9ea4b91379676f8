"""Record what this tree answers, and compare two records: the net under a change that must not change behaviour.

``python tests/freeze.py record OUT [MODE…]`` runs the command and pytest over all public dumps, examples, damaged dumps
and data types (both kernels, English and Chinese, 80 and 120 columns, with and without workers), and writes what was
printed and which reports were made. ``python tests/freeze.py compare BEFORE AFTER`` prints the cases that differ and
exits with 1. Both records have to be made on one machine: all work is done in one folder of a fixed name, because
paths wrap lines.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from outcomes import without_run

ROOT = Path(__file__).parents[1]
REPORTS = "json,csv,html,md"
# Name → environment of a process that runs all commands.
MODES = {
    "compiled-en-80": {"MSDUMP_KERNEL": "compiled", "MSDUMP_LANG": "en", "COLUMNS": "80"},
    "compiled-zh-120": {"MSDUMP_KERNEL": "compiled", "MSDUMP_LANG": "zh", "COLUMNS": "120"},
    "numpy-en-120": {"MSDUMP_KERNEL": "numpy", "MSDUMP_LANG": "en", "COLUMNS": "120"},
}
SUITES = (
    "example_suites/01_lenet_port/msdump.toml",
    "example_suites/02_failing_on_purpose/msdump.toml",
    "example_suites/04_ascend_fused_conv/msdump.toml",
    "example_suites/05_quantised/msdump.toml",
)
PROFILES = ("default", "strict", "bitwise", "ascend", "torch")
DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")

Case = tuple[str, list[str]]


# -- inputs made here --------------------------------------------------------------------------------------------------


def write_arrays(folder: Path) -> Iterator[Case]:
    """Pairs of files of all data types, near, far, with NaN and Inf, of other shapes and orders."""
    draw = np.random.default_rng(20)
    folder.mkdir()
    base = draw.normal(size=(3, 40, 7)) * 50
    noisy = base * (1 + draw.normal(size=base.shape) * 1e-4)
    made = {f"near_{name}": (base.astype(name), noisy.astype(name)) for name in DTYPES}
    wrong = np.where(draw.random(base.shape) < 0.02, np.nan, noisy).astype("f4")
    wrong[0, 0, :3] = np.inf, -np.inf, np.finfo("f4").max
    made |= {
        "dtypes": (base.astype("f2"), base.astype("f4")),
        "ints_and_floats": (base.astype("i8"), base.astype("f4")),
        "classes": (wrong, base.astype("f4")),
        "both_classes": (wrong, wrong[::1].copy()),
        "transposed": (base.transpose(2, 0, 1).astype("f4"), base.astype("f4")),
        "fortran": (np.asfortranarray(base.astype("f4")), noisy.astype("f4")),
        "reshaped": (base.reshape(-1).astype("f4"), base.astype("f4")),
        "scalar": (np.float32(1), np.float32(1.01)),
        "empty": (np.empty((0, 3), "f4"), np.empty((0, 3), "f4")),
        "scaled": ((base * 1.01).astype("f4"), base.astype("f4")),
        "shifted": ((base + 1).astype("f4"), base.astype("f4")),
        "negated": ((-base).astype("f4"), base.astype("f4")),
        "big_endian": (base.astype(">f4"), base.astype("<f4")),
    }
    for name, (left, right) in made.items():
        np.save(folder / f"{name}_left.npy", left)
        np.save(folder / f"{name}_right.npy", right)
        for profile in ("default", "bitwise") if name in ("dtypes", "near_f4") else ("default",):
            yield (
                f"files {name} {profile}",
                [*("compare", f"arrays/{name}_left.npy", f"arrays/{name}_right.npy", "--profile", profile)],
            )


def write_damage(folder: Path, lenet: Path) -> Iterator[Case]:
    """Copies of the lenet run with one file damaged in each."""
    draw = np.random.default_rng(21)
    for number in range(12):
        copy = folder / f"{number}"
        shutil.copytree(lenet / "target", copy)
        files = sorted(copy.rglob("*.npy"))
        file = files[int(draw.integers(len(files)))]
        content = bytearray(file.read_bytes())
        if number % 4 == 0:
            del content[int(draw.integers(len(content))) :]
        elif number % 4 == 1:
            content[int(draw.integers(100))] ^= 0x41
        elif number % 4 == 2:
            content[-int(draw.integers(1, 60))] ^= 0x40
        file.write_bytes(content)
        if number % 4 == 3:
            file.unlink()
        suite = write_suite(folder / f"{number}.msdump.toml", f"{number}", "../lenet/reference", lenet / "mapping.json")
        yield f"damage {number} by name", ["compare", f"damage/{number}", "lenet/target"]
        yield f"damage {number} by map", ["compare", "--config", suite]


def write_suite(file: Path, left: str, right: str, mapping: Path) -> str:
    """Write a suite of two dumps and a map of lenet; return its path as it is typed in the folder of work."""
    lines = ["[msdump]", f'left = "{left}"', f'right = "{right}"']
    for entry in json.loads(mapping.read_text("utf-8"))["entries"]:
        lines += [
            "[[msdump.map]]",
            f'left = "{entry["target_op"]}:{entry["target_io"]}:{entry["target_slot"]}"',
            f'right = "{entry["reference"]}:output:{entry["reference_output"]}"',
        ]
        lines += ["reshape = true"] if entry.get("reshape") else []
    file.write_text("\n".join(lines), "utf-8")
    return f"{file.parent.name}/{file.name}"


# -- what is run -------------------------------------------------------------------------------------------------------


def commands(work: Path) -> Iterator[Case]:
    """Every command, by name; paths are relative to the folder of work."""
    yield from write_arrays(work / "arrays")
    yield from write_damage(work / "damage", work / "lenet")
    for target in ("target", "target_bad", "target_bad2"):
        suite = f"lenet/{target}.msdump.toml"
        for profile in PROFILES:
            yield f"lenet {target} {profile}", ["compare", "--config", suite, "--profile", profile]
        yield f"lenet {target} names all", ["compare", f"lenet/{target}", "lenet/target", "--io", "all"]
        yield f"lenet {target} suggest", ["match", f"lenet/{target}", "lenet/reference", "--suggest"]
        yield f"lenet {target} match", ["match", "--config", suite]
    groups = ("generations", "hazards", "localising", "run_facts", "training")
    trees = [f"{group}/{tree.name}" for group in groups for tree in sorted((work / group).iterdir()) if tree.is_dir()]
    trees += ["training", *(f"example_suites/{name}" for name in ("08_one_dump/run", "08_one_dump/device"))]
    for tree in trees:
        yield f"self {tree}", ["compare", tree, tree]
        for words in (["inspect"], ["inspect", "--check"], ["overflow"]):
            yield f"{' '.join(words)} {tree}", [words[0], tree, *words[1:]]
    for one, other in (("g3", "g4"), ("g1", "g2"), ("g6_bin", "g6_npy"), ("g7_bin", "g7_npy"), ("g5", "g4")):
        yield f"generations {one} {other}", ["compare", f"generations/{one}", f"generations/{other}", "--io", "all"]
    for case in sorted((work / "ascend_golden").iterdir()):
        if not (case / "left").is_dir():
            continue
        rules = [
            word for name in ("f", "q") for word in _rule(case, {"f": "fusion.json", "q": "quant.json"}[name], name)
        ]
        right = ["-r", f"ascend_golden/{case.name}/right"] if (case / "right").is_dir() else []
        if right:
            yield f"golden {case.name}", ["compare", "-l", f"ascend_golden/{case.name}/left", *right, *rules]
        yield f"golden inspect {case.name}", ["inspect", f"ascend_golden/{case.name}/left"]
    for case in sorted((work / "ascend_golden/h_overflow").iterdir()):
        if case.is_dir():
            yield f"golden overflow {case.name}", ["overflow", f"ascend_golden/h_overflow/{case.name}"]
    for name in ("04_ascend_fused_conv", "05_quantised"):
        place = f"example_suites/{name}"
        quant = ["-q", f"{place}/quant.json"] if (work / place / "quant.json").exists() else []
        words = ["-l", f"{place}/run", "-r", f"{place}/reference", "-f", f"{place}/fusion.json", *quant]
        yield f"example {name}", ["compare", *words]
        yield f"example match {name}", ["match", *words]
    for words in (["--help"], *([name, "--help"] for name in ("compare", "match", "inspect", "check", "convert"))):
        yield f"help {' '.join(words)}", words
    for number, wrong in enumerate(
        ("compare nowhere lenet/target", "compare", "compare lenet/target lenet/target --profile no")
    ):
        yield f"usage {number}", wrong.split()


def _rule(case: Path, name: str, flag: str) -> list[str]:
    return [f"-{flag}", f"ascend_golden/{case.name}/{name}"] if (case / name).exists() else []


def sessions() -> Iterator[Case]:
    """Every run of pytest."""
    for suite in SUITES:
        for jobs in ("0", "2"):
            yield f"pytest {suite} -n {jobs}", [suite, "-n", jobs, "-rA"]
        yield f"pytest {suite} collect", [suite, "--collect-only", "-q"]
    for target in ("target", "target_bad"):
        sides = [f"lenet/{target}.msdump.toml"]
        for more in (
            [],
            ["--msdump-profile=strict"],
            ["--msdump-granularity=tensor", "-n", "2"],
            ["--msdump-min-coverage=100"],
        ):
            yield f"pytest lenet {target} {' '.join(more)}", [*sides, *more]


# -- running -----------------------------------------------------------------------------------------------------------


def prepare(work: Path) -> None:
    """Lay out the data anew."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(ROOT / "tests/data", work)
    shutil.copytree(ROOT / "example_suites", work / "example_suites")
    for target in ("target", "target_bad", "target_bad2"):
        mapping = work / "lenet" / ("mapping_bad2.json" if target == "target_bad2" else "mapping.json")
        write_suite(work / f"lenet/{target}.msdump.toml", target, "reference", mapping)
    for junk in [*work.rglob("__pycache__"), *work.rglob(".pytest_cache"), *work.rglob("msdump-report")]:
        shutil.rmtree(junk)


def run_commands(mode: str, out: Path, work: Path) -> None:
    """Run every command in this process, which has the environment of a mode."""
    from pytest_msdump import cli

    os.chdir(work)
    for name, words in list(commands(work)):
        shutil.rmtree("report", ignore_errors=True)
        if words[0] == "compare" and len(words) > 1 and "--help" not in words:
            words = [*words, "--report-dir", "report", "--report", REPORTS]
        printed, wrong = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(wrong):
            try:
                code: object = cli.main(words)
            except SystemExit as left:
                code = left.code
            except BaseException:
                code = traceback.format_exc()
        save(out / mode / slug(name), code, printed.getvalue(), wrong.getvalue(), Path("report"))


def run_session(name: str, words: list[str], out: Path, work: Path) -> None:
    """Run pytest in a process, in a copy of the work of its own."""
    home = work / "home" / hashlib.sha256(name.encode()).hexdigest()[:8]
    shutil.copytree(
        work, home, ignore=shutil.ignore_patterns("home", "ascend_golden", "generations", "arrays", "damage")
    )
    (home / "pytest.ini").write_text("[pytest]\n", "utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words),
            *("--msdump-report-dir=report", f"--msdump-report={REPORTS}", "--junitxml=report.xml"),
        ],
        cwd=home,
        env={**os.environ, "COLUMNS": "100", "MSDUMP_LANG": "en", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    printed = re.sub(r"\d+\.\d\ds\b( \(\S+\))?", "TIME", done.stdout)
    printed = re.sub(r"=+( .*TIME.*? )=+", r"==\1==", printed)
    printed = "\n".join(
        line for line in printed.splitlines() if not line.startswith(("platform", "plugins", "created:"))
    )
    printed = re.sub(r"\[gw\d\] linux.*|\[gw\d\] \[ *\d+%\] |^\d+ workers.*$|gw\d \S+", "", printed, flags=re.MULTILINE)
    if "-n" in words:  # workers report in any order
        printed = "\n".join(sorted(printed.splitlines()))
    save(out / "pytest" / slug(name), done.returncode, printed, done.stderr, home / "report")
    shutil.rmtree(home)


def slug(name: str) -> str:
    """Make a file name of a case's name."""
    return re.sub(r"[^A-Za-z0-9_.=-]+", "_", name).strip("_")


def save(place: Path, code: object, printed: str, wrong: str, report: Path) -> None:
    """Write what came out of one case."""
    place.mkdir(parents=True)
    (place / "code").write_text(f"{code}\n", "utf-8")
    (place / "stdout").write_text(printed, "utf-8")
    (place / "stderr").write_text(wrong, "utf-8")
    if report.is_dir():
        for file in sorted(report.iterdir()):
            if file.suffix in (".json", ".csv", ".md", ".html"):
                text = without_run(file.read_bytes()).decode("utf-8", errors="surrogateescape")
                if file.suffix == ".json":
                    text = json.dumps(json.loads(text), indent=1, sort_keys=True, ensure_ascii=False)
                if file.suffix == ".html":
                    text = re.sub(r"<(style|script)(?! type=\"application/json\").*?</\1>", "", text, flags=re.DOTALL)
                (place / file.name).write_text(text, "utf-8", errors="surrogateescape")


def record(out: Path, modes: list[str]) -> int:
    """Record every case of these modes, ``pytest`` among them, into a new folder."""
    if out.exists():
        print(f"{out} exists already")
        return 4
    work = Path(tempfile.gettempdir()) / "msdump_freeze"
    out = out.resolve()
    for mode, environment in ((name, MODES[name]) for name in MODES if name in modes):
        prepare(work)
        words = [sys.executable, __file__, "mode", mode, str(out), str(work)]
        subprocess.run(words, env={**os.environ, **environment}, check=True)
    prepare(work)
    if "pytest" in modes:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda case: run_session(*case, out, work), list(sessions())))
    shutil.rmtree(work)
    print(f"{sum(1 for _ in out.rglob('code'))} cases in {out}")
    return 0


def content(file: Path) -> object:
    """Return what a file holds; of results.json what it says, whatever is left out of it."""
    if not file.exists():
        return None
    if file.name != "results.json":
        return file.read_bytes()
    from pytest_msdump.core.report.packing import unpack

    document = dict(unpack(json.loads(file.read_text("utf-8", errors="surrogateescape"))))
    for record in document["tensors"]:
        # Not written of a pair that passes; a ratio in dB may have another last digit.
        record |= {"where": {}, "worst": []} if record["verdict"] == "pass" else {}
        for one in (record["metrics"], *record["checks"]):
            for key in ("signal_to_noise_ratio", "value"):
                one |= {key: float(f"{one[key]:.12g}")} if type(one.get(key)) is float else {}
    return document


def compare(before: Path, after: Path) -> int:
    """Print which files differ; 1 when any does."""
    names = sorted({path.relative_to(side) for side in (before, after) for path in side.rglob("*") if path.is_file()})
    wrong = 0
    for name in names:
        contents = [content(side / name) for side in (before, after)]
        if contents[0] != contents[1]:
            wrong += 1
            what = "only before" if contents[1] is None else "only after" if contents[0] is None else "differs"
            print(f"{what}: {shlex.quote(str(name))}")
    print(f"{len(names)} files, {wrong} differ")
    return int(wrong > 0)


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    calls = parser.add_subparsers(dest="call", required=True)
    recording = calls.add_parser("record")
    recording.add_argument("out", type=Path)
    recording.add_argument("modes", nargs="*", default=[*MODES, "pytest"], help=f"of {', '.join(MODES)}, pytest")
    two = calls.add_parser("compare")
    two.add_argument("before", type=Path)
    two.add_argument("after", type=Path)
    inner = calls.add_parser("mode")
    for name in ("mode", "out", "work"):
        inner.add_argument(name, type=str if name == "mode" else Path)
    arguments = parser.parse_args()
    if arguments.call == "record":
        return record(arguments.out, arguments.modes)
    if arguments.call == "compare":
        return compare(arguments.before, arguments.after)
    run_commands(arguments.mode, arguments.out, arguments.work)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
