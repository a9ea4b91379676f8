"""Figures without noise that may only fall: lines, files, modules, calls, bytes.

    python tests/house/ratchet.py                       print each figure beside the most that ratchet.toml allows
    python tests/house/ratchet.py --write               lower what fell
    python tests/house/ratchet.py --write --why TEXT    also raise what rose; TEXT stands beside it, and in the commit

A test fails where a figure is above what the file allows, and where the file allows 1 % more than there is. What
differs between versions of Python is counted by 3.11 alone. Calls differ from machine to machine by one in a thousand
(how deep the temporary folder lies, where work goes from thread to thread); that much more is allowed.

An import inside a function counts when it is of our own modules; an edge is a room that imports another one. Calls are
those that cProfile counts, of 4,000 pairs of 16 float32 that differ by rounding; bytes are those of results.json for
the same. Modules, files and functions are those of ``msdump compare`` with two ``.npy`` files; the last two of a second
call in one process.
"""

from __future__ import annotations

import argparse
import ast
import cProfile
import json
import os
import pstats
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pytest_msdump"
LIMITS = Path(__file__).with_name("ratchet.toml")
NAME = PACKAGE.name
CORE = f"{NAME}.core"
TINY_PAIRS = 4000
# Figure → the share by which it may exceed what ratchet.toml allows.
WANDERING = {"calls_per_tiny_pair": 0.005}


def modules() -> dict[str, Path]:
    """Map the dotted name of every module to its file."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(
    tree: ast.Module, name: str, is_package: bool, known: dict[str, Path], *, types: bool = False
) -> list[tuple[str, bool]]:
    """List our own modules that this one imports, each with whether a function does it; `types`: typing too."""
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, inside: bool) -> None:
        if not types and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for other in node.orelse:
                visit(other, inside)
            return
        if isinstance(node, ast.Import):
            found.extend((alias.name, inside) for alias in node.names if alias.name.split(".")[0] == NAME)
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".") if is_package else name.split(".")[:-1]
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join([*parts, *([base] if base else [])])
            if base.split(".")[0] == NAME:
                found.extend(
                    (full if (full := f"{base}.{alias.name}") in known else base, inside) for alias in node.names
                )
        inner = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, inner)

    visit(tree, False)
    return found


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, function-level imports included (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def connect(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges[node]):
            if other not in index:
                connect(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                groups.append(sorted(group))

    for node in list(edges):
        if node not in index:
            connect(node)
    return groups


def edges_of_modules(*, types: bool = False) -> dict[str, set[str]]:
    """Map each module to those of ours that it imports, in functions too, and with `types` for type checking."""
    known = modules()
    return {
        name: {
            other
            for other, _ in imports(
                ast.parse(path.read_text("utf-8")), name, path.name == "__init__.py", known, types=types
            )
            if other in known and other != name
        }
        for name, path in known.items()
    }


def imports_inside_functions() -> int:
    """Count imports of our own modules that stand inside functions."""
    known = modules()
    trees = ((ast.parse(path.read_text("utf-8")), name, path) for name, path in known.items())
    return sum(deep for tree, name, path in trees for _, deep in imports(tree, name, path.name == "__init__.py", known))


def structure() -> tuple[list[list[str]], set[tuple[str, str]]]:
    """Return the circles of modules, and which room imports which."""
    edges = edges_of_modules()

    def room(module: str) -> str:
        parts = module.split(".")[1:]
        return ".".join(parts[: 2 if parts[:1] in (["core"], ["capabilities"]) else 1])

    rooms = {(room(one), room(other)) for one, others in edges.items() for other in others}
    return circles(edges_of_modules(types=True)), {(one, other) for one, other in rooms if one != other}


def lines(paths: list[Path]) -> int:
    """Count the lines of files."""
    return sum(path.read_bytes().count(b"\n") for path in paths)


def of_the_tree() -> dict[str, int]:
    """Count what stands in the tree."""
    package = list(PACKAGE.rglob("*.py"))
    edges = edges_of_modules()
    pages = [path for path in ROOT.glob("docs/**/*.md") if "zh" not in path.relative_to(ROOT / "docs").parts]
    return {
        "package_lines": lines(package),
        "package_files": len(package),
        "test_lines": lines(list(ROOT.glob("tests/**/*.py"))),
        "docs_words": sum(len(path.read_bytes().split()) for path in pages),
        "core_lines": lines(list(PACKAGE.glob("core/**/*.py"))),
        "edges_out_of_the_core": sum(
            not other.startswith(CORE) for name in edges if name.startswith(CORE) for other in edges[name]
        ),
        "modules_imported_by_one": max(len(others) for others in edges.values()),
        "imports_inside_functions": imports_inside_functions(),
        "edges_between_rooms": len(structure()[1]),
    }


@contextmanager
def empty_folder() -> Iterator[None]:
    """Work in a folder of one's own."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def compare(*words: str) -> None:
    """Run ``msdump compare`` in this process; what it prints is thrown away."""
    from pytest_msdump.cli import main

    # Progress is printed by the clock.
    with redirect_stdout(StringIO()):
        code = main(["compare", "--quiet", *words])
    assert code == 0, f"msdump compare {' '.join(words)} ended with {code}"


def of_a_start() -> dict[str, int]:
    """Count what two small files take; the process must not have imported the package yet."""
    values = np.random.default_rng(0).standard_normal((8, 8)).astype("f4")
    entered: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)) and not code.co_name.startswith("<"):
            entered.add(code)

    with empty_folder():
        np.save("left.npy", np.nextafter(values, np.float32(9)))
        np.save("right.npy", values)
        compare("left.npy", "right.npy")
        loaded = [name for name in sys.modules if name.partition(".")[0] == NAME]
        sys.setprofile(note)
        try:
            compare("left.npy", "right.npy")
        finally:
            sys.setprofile(None)
    return {
        "modules_for_two_files": len(loaded),
        "files_entered_for_two_files": len({code.co_filename for code in entered}),
        "functions_run_for_two_files": len(entered),
    }


def of_tiny_pairs() -> dict[str, int]:
    """Count the calls and the bytes that a tiny pair takes."""
    values = np.arange(16, dtype="f4")
    with empty_folder():
        for side, array in (("left", np.nextafter(values, np.float32(99))), ("right", values)):
            Path(side).mkdir()
            for number in range(TINY_PAIRS):
                np.save(f"{side}/op{number}.0.{1_700_000_000_000_000 + number}.npy", array)
        with cProfile.Profile() as profile:
            compare("left", "right")
        size = Path("msdump-report/results.json").stat().st_size
    calls: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]  # typeshed lacks it
    return {"calls_per_tiny_pair": calls // TINY_PAIRS, "bytes_per_passing_record": size // TINY_PAIRS}


def figures() -> dict[str, int]:
    """Measure all that ratchet.toml limits."""
    return {**of_a_start(), **of_tiny_pairs(), **of_the_tree()}


def limits() -> dict[str, dict[str, Any]]:
    """Read ratchet.toml: each figure with the most that is allowed, and why where it rose."""
    import tomllib

    with LIMITS.open("rb") as file:
        return tomllib.load(file)


def complaints(measured: dict[str, int], allowed: dict[str, dict[str, Any]]) -> list[str]:
    """Say which figures rose, which fell without ratchet.toml, and which only one of both has."""
    said = [f"{name}: only one of ratchet.toml and ratchet.py has it" for name in measured.keys() ^ allowed.keys()]
    for name in measured.keys() & allowed.keys():
        now, most = measured[name], allowed[name]["most"]
        if now > most * (1 + WANDERING.get(name, 0)):
            said.append(f"{name}: {now:,} are more than {most:,}; lower it, or --write --why TEXT")
        if now < 0.99 * most:
            said.append(f"{name}: {now:,} are less than {most:,}; --write holds that")
    return sorted(said)


def write(measured: dict[str, int], allowed: dict[str, dict[str, Any]], why: str | None) -> list[str]:
    """Write ratchet.toml anew and return the figures that would have risen without a reason."""
    texts, refused = [], []
    for name, now in measured.items():
        row = dict(allowed.get(name, {"most": now}))
        if now < row["most"]:
            row = {"most": now}
        elif now > row["most"] and why:
            row = {"most": now, "why": why}
        elif now > row["most"]:
            refused.append(name)
        reason = f"why = {json.dumps(row['why'], ensure_ascii=False)}\n" if "why" in row else ""
        texts.append(f"[{name}]\nmost = {row['most']}\n{reason}")
    LIMITS.write_text("\n".join(texts), "utf-8")
    return refused


def main() -> int:
    """Print the figures, and write them down where that is asked for."""
    parser = argparse.ArgumentParser(description="Print figures that may only fall.")
    parser.add_argument("--write", action="store_true", help="lower in ratchet.toml what fell")
    parser.add_argument("--why", metavar="TEXT", help="with --write: also raise what rose, with this reason")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    measured, allowed = figures(), limits()
    for name, now in measured.items():
        most = allowed.get(name, {}).get("most")
        print(f"{name:28} {now:>9,}  of {most if most is None else format(most, ',')}")
    said = write(measured, allowed, options.why) if options.write else complaints(measured, allowed)
    print(*said, sep="\n", end="\n" if said else "")
    return bool(said)


if __name__ == "__main__":
    raise SystemExit(main())
