"""The documentation as programs see it: pages, their fenced blocks, their links, and what their commands print.

A page is a Markdown file. A comment right above a fence says how a block is meant:

* ``<!-- exit: 1 -->``: the exit code that its commands are to have (0 when nothing is said);
* ``<!-- file: NAME -->``: the block is the content of a file, which is written before the next commands run;
* ``<!-- not run: REASON -->``: commands that a test cannot run;
* ``<!-- project: NAME -->``: a file of the project that a page tells about; the tests of the page make that project;
* ``<!-- live: PACKAGE -->``: commands that need a framework; tests/live runs them where it is installed. With
  ``, exit: 1`` behind the package that is their exit code.

``<!-- columns: 80 -->`` on a page is the width of the terminal that its commands see (100 when nothing is said).

In a block of kind ``console`` a line that begins with ``$ `` is a command, and the lines up to the next one are what it
prints; a line ``...`` stands for any number of lines. A command without lines below it may print anything.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
CHINESE = DOCS / "zh"
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "README.zh.md", "CONTRIBUTING.md", "CHANGELOG.md")),
        *DOCS.rglob("*.md"),
        *(ROOT / "benchmarks").glob("*.md"),
        *(ROOT / "example_suites").rglob("*.md"),
    ]
)

_COLUMNS = re.compile(r"^<!-- columns: (\d+) -->$", re.MULTILINE)
_FENCE = re.compile(r"^(`{3,})(\S*)\s*$")
_NOTE = re.compile(r"^<!-- (exit|file|project|not run|live): (.+) -->$")

# Of this machine, not of the product: versions, seeds and places at the top, and which kernel was built.
_HEADER = re.compile(r"^( {8}kernel: |platform |hypothesis profile |rootdir: |configfile: |plugins: |cachedir: )")
# A framework that loads on a busy machine takes minutes; what takes longer than this hangs.
_HANGS_AFTER_SECONDS = 600

_ENDING = re.compile(r"^=+ (.+) in [\d.]+s(?: \([\d:]+\))? =+$|^(\d+ .+) in [\d.]+s(?: \([\d:]+\))?$")


@dataclass
class Command:
    """One command of a page and what it is said to print: between the lines `last` and `end`, which count from 0."""

    text: str
    last: int
    end: int
    printed: list[str] = field(default_factory=list)


@dataclass
class Block:
    """One fenced block: its kind, its lines, and what the comment above it says."""

    kind: str
    line: int
    lines: list[str]
    note: str | None = None
    value: str = ""

    @property
    def text(self) -> str:
        """The content as a file would have it."""
        return "\n".join(self.lines) + "\n"

    def commands(self) -> Iterator[Command]:
        """Split a console block."""
        current: Command | None = None
        continued = False
        for number, line in enumerate(self.lines, self.line + 1):
            if continued and current:
                current.text += "\n" + line
                current.last = current.end = number
            elif line.startswith("$ "):
                if current:
                    yield current
                current = Command(line[2:], number, number)
            elif current:
                current.printed.append(line)
                current.end = number
            continued = line.endswith("\\") and bool(current) and not (current and current.printed)
        if current:
            yield current


def columns(page: Path) -> str:
    """Return the width of the terminal that the commands of a page see."""
    said = _COLUMNS.search(page.read_text(encoding="utf-8"))
    return said[1] if said else "100"


def blocks(page: Path) -> Iterator[Block]:
    """Read the fenced blocks of a page."""
    fence, above = "", ""
    block = Block("", 0, [])
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines()):
        opened = _FENCE.match(line)
        if fence:
            if line.strip() == fence:
                fence = ""
                yield block
            else:
                block.lines.append(line)
        elif opened:
            fence, kind = opened.groups()
            noted = _NOTE.match(above)
            block = Block(kind, number, [], *(noted.groups() if noted else ()))
        above = line if line.strip() else above


def english(page: Path) -> Path:
    """Return the English page that a page translates; of an English one itself."""
    if CHINESE in page.parents:
        return DOCS / page.relative_to(CHINESE)
    return page.with_name(page.name.replace(".zh.", "."))


def copy_project(folder: Path) -> Path:
    """Return a copy of what the commands of the documentation use."""
    project = folder / "pytest-msdump"
    project.mkdir()
    ignore = shutil.ignore_patterns("__pycache__", "msdump-report", ".pytest_cache")
    for name in ("example_suites", "benchmarks"):
        shutil.copytree(ROOT / name, project / name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", project)
    # What benchmarks write dumps with.
    (project / "tests").mkdir()
    shutil.copy(ROOT / "tests/dump_builder.py", project / "tests")
    return project


def run(command: str, folder: Path, home: Path, *, columns: str = "100", locale: str = "") -> tuple[int, list[str]]:
    """Run one command as a reader would in `folder`; return its exit code and what it printed. `home` is not shown."""
    scripts = Path(sys.executable).parent
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GITHUB_", "CI"))}
    environ |= {
        "PATH": f"{scripts}{os.pathsep}{environ['PATH']}",
        "COLUMNS": columns,
        "PYTHONDONTWRITEBYTECODE": "1",
        "NO_COLOR": "1",
    }
    environ |= {"LC_MESSAGES": locale} if locale else {}
    pipe = subprocess.PIPE
    words = ["bash", "-c", command]
    with subprocess.Popen(
        words, cwd=folder, env=environ, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as started:
        try:
            said = "".join(started.communicate(timeout=_HANGS_AFTER_SECONDS))
        except subprocess.TimeoutExpired:
            # pytest then prints where each thread is.
            os.killpg(started.pid, signal.SIGABRT)
            with suppress(subprocess.TimeoutExpired):
                said = "".join(started.communicate(timeout=10))
                raise AssertionError(f"{command} did not end:\n{said}") from None
            os.killpg(started.pid, signal.SIGKILL)
            raise
    lines = said.replace(str(home), "/home/you").splitlines()
    return started.returncode, [line.rstrip() for line in lines if not _HEADER.match(line)]


def follow_live(page: Path, packages: set[str], folder: Path, home: Path, *, apart_from: str = "") -> int:
    """Type the commands of a page that need one of these packages, and return how many there were.

    What the pattern `apart_from` finds differs from run to run, and counts neither on the page nor in what is printed.
    """

    def fixed(lines: list[str]) -> list[str]:
        cut = [re.sub(apart_from, "", line) if apart_from else line for line in lines]
        return [after for line, after in zip(lines, cut, strict=True) if after or not line]

    followed = 0
    shown: dict[int, tuple[int, list[str]]] = {}
    for block in blocks(page):
        package, _, code = block.value.partition(", exit: ")
        if block.note == "file":
            (folder / block.value).write_text(block.text, encoding="utf-8")
        elif block.note == "live" and package in packages:
            for command in block.commands():
                exited, printed = run(command.text, folder, home)
                assert exited == int(code or 0), "\n".join([f"$ {command.text}", f"exit code {exited}", *printed])
                if command.printed and not prints_as_said(fixed(command.printed), fixed(printed)):
                    assert os.environ.get("MSDUMP_DOCS_REWRITE"), "\n".join(printed)
                    shown[command.last] = (command.end, excerpt(command.printed, printed))
                followed += 1
    rewrite(page, shown)
    return followed


def rewrite(page: Path, shown: dict[int, tuple[int, list[str]]]) -> None:
    """Put into the page what its commands printed; asked for by MSDUMP_DOCS_REWRITE=1."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for line in sorted(shown, reverse=True):
        end, printed = shown[line]
        lines[line + 1 : end + 1] = printed
    if shown:
        page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def comparable(lines: list[str]) -> str:
    """Lines without what differs between two runs: the time they took."""

    def untimed(line: str) -> str:
        ended = _ENDING.match(line)
        return (ended[1] or ended[2]) if ended else line

    return "".join(f"{untimed(line.rstrip())}\n" for line in lines)


def prints_as_said(said: list[str], printed: list[str]) -> bool:
    """Whether `printed` is what a page says, where ``...`` stands for any lines."""
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == "..." else re.escape(comparable([line])) for line in said)
    return re.fullmatch(pattern, comparable(printed)) is not None


def excerpt(said: list[str], printed: list[str]) -> list[str]:
    """What a page should show of `printed`, cut at the start and the end as what it shows now is cut."""
    first, last = said[0].strip() == "...", said[-1].strip() == "..."
    wanted = said[first : len(said) - last]
    if not wanted or "..." in wanted:
        return said
    start = printed.index(wanted[0]) if first and wanted[0] in printed else 0
    ends = [number for number, line in enumerate(printed, 1) if line == wanted[-1] and number > start]
    end = ends[0] if last and ends else len(printed)
    return ["..."] * first + printed[start:end] + ["..."] * last


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings make."""
    text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = set()
    for title in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", title.replace("`", "").lower())
        found.add(plain.strip().replace(" ", "-"))
    return found


def links(page: Path) -> Iterator[str]:
    """Targets of the links of a page, outside its fenced blocks."""
    text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"\]\(([^)\s]+)\)", text)


def docs_module(name: str) -> ModuleType:
    """Load a module of the site, which is no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def options_of(recording: type) -> Iterator[str]:
    """The keywords that a recording takes: its own, and those that it passes on to the class above."""
    for owner in recording.__mro__:
        parameters = inspect.signature(owner.__init__).parameters.values()  # type: ignore[misc]
        yield from (one.name for one in parameters if one.kind is one.KEYWORD_ONLY)
        if not any(one.kind is one.VAR_KEYWORD for one in parameters):
            return
