"""Count what the package is made of: ``python tests/house/measure.py`` prints one figure a line.

A line is code when a token other than a comment or a docstring stands on it. An import inside a function counts when
it is of our own modules. A file has one importer when exactly one other file of the package names it, and that file is
in the same folder; ``__init__`` files and rows of extension points, which the registry finds, are left out.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "pytest_msdump"
NAME = PACKAGE.name
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def modules() -> dict[str, Path]:
    """Map the dotted name of every module to its file."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def docstring_lines(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines that hold docstrings."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def code_lines(text: str, tree: ast.Module) -> int:
    """Count the lines on which something stands that runs."""
    used: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            used.add(token.start[0])
    return len(used - docstring_lines(tree))


def imports(tree: ast.Module, name: str, is_package: bool, known: dict[str, Path]) -> list[tuple[str, bool]]:
    """List our own modules that this one imports, each with whether a function does it; type checking is left out."""
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, inside: bool) -> None:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
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


def figures() -> dict[str, object]:
    """Measure the package; the values are numbers, or lists where the names matter."""
    known = modules()
    texts = {name: path.read_text("utf-8") for name, path in known.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    edges: dict[str, set[str]] = defaultdict(set)
    importers: dict[str, set[str]] = defaultdict(set)
    inside = 0
    for name, tree in trees.items():
        seen = imports(tree, name, known[name].name == "__init__.py", known)
        inside += len([other for other, deep in seen if deep])
        edges[name] |= {other for other, _ in seen if other in known and other != name}
        for other in edges[name]:
            importers[other].add(name)
    single = [
        name
        for name, users in sorted(importers.items())
        if len(users) == 1
        and known[name].name != "__init__.py"
        and known[next(iter(users))].parent == known[name].parent
    ]
    return {
        "Python files": len(known),
        "lines": sum(len(text.splitlines()) for text in texts.values()),
        "lines of code": sum(code_lines(text, trees[name]) for name, text in texts.items()),
        "longest file": max(len(text.splitlines()) for text in texts.values()),
        "lines of C": sum(len(path.read_text("utf-8").splitlines()) for path in PACKAGE.rglob("*.c")),
        "imports inside functions": inside,
        "files with one importer": len(single),
        "circles": circles(edges),
    }


if __name__ == "__main__":
    for what, value in figures().items():
        if isinstance(value, list):
            print(f"{what}: {len(value)}", *(f"  {' '.join(group)}" for group in value), sep="\n")
        else:
            print(f"{what}: {value}")
