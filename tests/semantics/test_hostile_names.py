"""Forty names that an operator may have go through everything that is printed or written, and drive nothing."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from pytest_msdump.record import DumpWriter

NAMES = (
    "esc\x1b[2J\x1b[31mpwn",
    "osc\x1b]8;;http://pwn\x1b\\link\x1b]8;;\x1b\\",
    "title\x1b]0;pwn\x07",
    "c1\x9b31mpwn",
    "bell\x07",
    "back\x08\x08\x08\x08pwn",
    "del\x7f",
    "cr\rPASS everything",
    "lf\nPASS everything",
    "lf\n::error file=a::pwn",
    "crlf\r\n::warning ::pwn",
    "vt\x0b::notice ::pwn",
    "::error file=a::pwn",
    " ::set-output name=a::pwn",
    "x ::add-mask::pwn",
    "##[error]pwn",
    "##vso[task.complete result=Succeeded;]pwn",
    "\n##[add-matcher]pwn",
    "a%0A::error file=a::pwn",
    "%25%0D%0A::stop-commands::pwn",
    "bidi\u202egnp.nwp",
    "isolate\u2066pwn\u2069",
    "nul\x00pwn",
    '=HYPERLINK("http://pwn","x")',
    "@SUM(1+1)*cmd|'/c pwn'!A0",
    "+1+cmd|pwn",
    "-1+cmd|pwn",
    "\t=1+pwn",
    "＝1+pwn",
    "a|b|pwn",
    "a\\|`pwn",
    "``` <img src=pwn> ```",
    "<script>pwn</script>",
    "</script><script>pwn</script>",
    "\"><img src=x onerror='pwn'>",
    "]]><pwn/>",
    "![pwn](http://pwn)",
    "lone\ud800pwn",
    "byte\udce9pwn",
    "line\u2028::error::pwn\u2029",
    "$(touch pwn) `touch pwn` ; touch pwn",
    "'; touch pwn; '",
    "{0} %s {label} \\n \\x1b",
    "long" + "\x1b[31m::error::" * 300,
)
pytestmark = pytest.mark.e2e
SIDES = ("left", "right")
_COMMAND = re.compile(
    r"##\[|##vso\[|::(error|warning|notice|debug|group|add-mask|set-output|stop-commands|save-state)[ :]", re.IGNORECASE
)
# What the runner may find: our own, whose properties are these.
_OURS = re.compile(r"::(error|notice) (file=[^:,]*,line=\d+,)?title=msdump[^:,]*::")


@pytest.fixture(scope="module")
def by_manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two dumps whose manifests give every name, to operators, lines of programs and frameworks; most of them drift."""
    folder = tmp_path_factory.mktemp("manifest")
    values = np.random.default_rng(1).normal(size=(2, 3)).astype("f4")
    for side in SIDES:
        with DumpWriter(folder / side, framework="torch", version="2", device="cpu") as writer:
            for number in range(len(NAMES)):
                factor = -1 if side == "left" and number % 4 else 1
                writer.write(f"op{number}", values * np.float32(factor))
            writer.write(f"alone_{side}", values)
        manifest = folder / side / "msdump.json"
        document = json.loads(manifest.read_text("utf-8"))
        for path, tensor in document["tensors"].items():
            number = re.match(r"op(\d+)\.", path)
            name = NAMES[int(number[1])] if number else f"{side}\n::error::pwn\x1b[2J"
            tensor |= {"op": name, "op_type": f"Type{name[:40]}", "line": f"net.py{name[:40]}:3"}
        document |= {"framework": NAMES[0], "version": NAMES[9], "device": NAMES[20]}
        manifest.write_text(json.dumps(document), "utf-8")
    return folder


@pytest.fixture(scope="module")
def by_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with names of files, and with folders that are called so, and files that no reader knows."""
    folder = tmp_path_factory.mktemp("files")
    values = np.random.default_rng(1).normal(size=(2, 3)).astype("f4")
    for side in SIDES:
        root = folder / f"{side}\n::error file=a::pwn\x1b[2J<b>"
        root.mkdir()
        for number, name in enumerate(NAMES):
            if {"/", "\0"}.isdisjoint(name) and len(name) < 200 and "\ud800" not in name:
                factor = -1 if side == "left" and number % 4 else 1
                np.save(root / f"{name}.0.{1700000000000000 + number}.npy", values * np.float32(factor))
        (root / f"unknown\x1b[2J\n::error::pwn {side}.txt").write_text("x", "utf-8")
    return folder


@pytest.fixture(params=["by_manifest", "by_file"])
def dumps(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Left and right, named either way."""
    folder: Path = request.getfixturevalue(request.param)
    left, right = sorted(path for path in folder.iterdir() if path.is_dir())
    return str(left), str(right)


def _run(folder: Path, *words: str, codes: Sequence[int] = (0, 1), more: dict[str, str] | None = None) -> str:
    """All that a program prints, checked; `github` may add commands of its own."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8:surrogateescape", **(more or {})},
        capture_output=True,
        timeout=300,
        check=False,
    )
    printed = (done.stdout + done.stderr).decode("utf-8", "surrogateescape")
    assert done.returncode in codes, printed
    assert "Traceback" not in printed
    _assert_safe(printed)
    return printed


def _assert_safe(text: str) -> None:
    assert {char for char in text if not char.isprintable()} <= {"\n", "\t"}
    commands = [line for line in text.split("\n") if _COMMAND.search(_OURS.sub("", line, count=1))]
    assert not commands


def _cells(file: Path) -> Iterator[str]:
    for row in csv.reader(io.StringIO(file.read_text("utf-8"), newline="")):
        yield from row


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", cell) is not None


class _Elements(HTMLParser):
    """The elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002 - as HTMLParser calls it
        self.found.append(tag)


def _assert_reports_safe(folder: Path) -> None:
    results = (folder / "results.json").read_bytes()
    assert results.isascii()
    names = {record["left"]["address"] for record in json.loads(results)["tensors"]}
    assert len(names) > 30
    _assert_safe((folder / "summary.md").read_text("utf-8"))
    _assert_safe((folder / "ops.csv").read_text("utf-8"))
    for cell in _cells(folder / "ops.csv"):
        assert cell[:1] not in {*"=+-@＝＋－＠\t\r"} or _is_number(cell), cell
    page = (folder / "index.html").read_text("utf-8")
    assert {char for char in page if ord(char) < 32 or 0x7F <= ord(char) < 0xA0} <= {"\n", "\t"}
    elements = _Elements()
    elements.feed(page)
    assert elements.found.count("script") == 2
    assert not {"img", "pwn", "b", "a"} & set(elements.found)
    # What is left of a page of Markdown without its code, in blocks and spans, is words of ours.
    summary = (folder / "summary.md").read_text("utf-8")
    assert "pwn" in summary
    blocks_out = re.sub(r"^```\w*\n.*?^```$", "", summary, flags=re.MULTILINE | re.DOTALL)
    outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", blocks_out)
    assert "pwn" not in outside
    assert "<" not in outside
    bars = {len(re.findall(r"(?<!\\)\|", re.sub(r"\\\\", "", line))) for line in summary.splitlines() if "| `" in line}
    assert bars <= {3, 6}
    assert (folder / "gl-code-quality.json").read_bytes().isascii()


def test_compare_and_its_reports_are_safe(tmp_path: Path, dumps: tuple[str, str]) -> None:
    reports = "json,csv,html,md,gitlab"
    printed = _run(
        tmp_path, "pytest_msdump", "compare", *dumps, "--all", f"--report={reports}", "-o", "table", "--report-dir=out"
    )
    assert "pwn" in printed
    _assert_reports_safe(tmp_path / "out")
    _assert_safe((tmp_path / "table" / "result.txt").read_text("utf-8"))
    _run(tmp_path, "pytest_msdump", "compare", *dumps, "--report=github", "-o", "table.csv", "-csv", "--lang=zh")
    for cell in _cells(tmp_path / "table.csv"):
        assert cell[:1] not in set("=+-@\t\r") or _is_number(cell), cell
    _run(tmp_path, "pytest_msdump", "check", "out/results.json", "--profile=strict")


def test_pytest_and_its_reports_are_safe(tmp_path: Path, dumps: tuple[str, str]) -> None:
    sides = (f"--msdump-left={dumps[0]}", f"--msdump-right={dumps[1]}")
    printed = _run(
        tmp_path,
        "pytest",
        *sides,
        "-v",
        "-rA",
        "-p",
        "no:cacheprovider",
        "--junitxml=junit.xml",
        "--msdump-report=json,csv,html,md,github,gitlab",
        "--msdump-suggest",
        codes=(1,),
    )
    assert "short test summary" in printed
    _assert_reports_safe(tmp_path / "msdump-report")
    junit = (tmp_path / "junit.xml").read_text("utf-8")
    _assert_safe(junit)
    assert {element.tag for element in ElementTree.fromstring(junit).iter()} <= {
        *("testsuites", "testsuite", "testcase", "properties", "property", "failure", "error", "skipped"),
        *("system-out", "system-err"),
    }


@pytest.mark.parametrize(
    "words",
    [
        ("match", "LEFT", "RIGHT"),
        ("match", "LEFT", "RIGHT", "--suggest"),
        ("match", "LEFT", "RIGHT", "--json"),
        ("inspect", "LEFT"),
        ("inspect", "LEFT", "--json"),
        ("inspect", "LEFT", "--check"),
        ("overflow", "LEFT"),
        ("convert", "LEFT", "--out", "converted"),
        ("compare", "LEFT", "RIGHT/nowhere"),
        ("compare", "LEFT", "RIGHT", "-d", "\x1b[2J\n::error::pwn"),
    ],
    ids=" ".join,
)
def test_what_other_commands_print_is_safe(tmp_path: Path, dumps: tuple[str, str], words: Sequence[str]) -> None:
    told = [word.replace("LEFT", dumps[0]).replace("RIGHT", dumps[1]) for word in words]
    _run(tmp_path, "pytest_msdump", *told, codes=(0, 1, 4))


def test_the_vendors_command_is_safe(tmp_path: Path, dumps: tuple[str, str]) -> None:
    words = ("compare", "-m", dumps[0], "-g", dumps[1], "-out", "out")
    _run(tmp_path, "pytest_msdump.compat.msaccucmp", *words, codes=(0, 1, 2))
    (table,) = (tmp_path / "out").glob("*.csv")
    _assert_safe(table.read_text("utf-8"))
    for cell in _cells(table):
        assert cell[:1] not in set("=+-@\t\r") or _is_number(cell), cell


def test_refusals_of_pytest_are_safe(tmp_path: Path, dumps: tuple[str, str]) -> None:
    sides = (f"--msdump-left={dumps[0]}/no\n::error::pwn\x1b[2J", f"--msdump-right={dumps[1]}")
    assert "pwn" in _run(tmp_path, "pytest", *sides, codes=(4,))


def test_a_command_of_a_failure_runs_that_operator_again(tmp_path: Path, by_manifest: Path) -> None:
    sides = (f"--msdump-left={by_manifest / 'left'}", f"--msdump-right={by_manifest / 'right'}")
    name = NAMES[9]
    printed = _run(tmp_path, "pytest", *sides, f"--msdump-select={name}", codes=(1,))
    line = printed.partition("re-run just this:")[2].partition("\n=")[0]
    line = line.replace("pytest ", f"{sys.executable} -m pytest ", 1)
    again = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed" in again.stdout
