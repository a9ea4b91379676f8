"""Every command in Chinese: by option or locale, without an English sentence; another language is refused."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from pytest_msdump import cli
from tests.docs_pages import ROOT

EXAMPLES = ROOT / "example_suites"
LENET, REFERENCE = EXAMPLES / "01_lenet_port" / "run", EXAMPLES / "01_lenet_port" / "reference"
WRONG, ONE = EXAMPLES / "02_failing_on_purpose" / "run", EXAMPLES / "08_one_dump" / "run"
GRAPH = EXAMPLES / "02_failing_on_purpose" / "ms_output_trace_code_graph_0.ir"
EXP = next(ONE.rglob("Exp.*.output.0.*.npy"))
COMPARED = f"compare {WRONG} {REFERENCE} --report-dir report"
NEW = "config new --path /data/dump --net Lenet --around-step 3 --out data_dump.json"
MADE = {
    "config.json": '{"common_dump_settings": {"dump_mode": 3, "kernels": 1, "typo": 2}, "extra": {}}',
    "net.prototxt": 'layer { name: "a" type: "ReLU" bottom: "x" top: "x" }\n',
    "tensors.txt": "Size (B) Op type Tensor name\n[0.000] 100 MatMul a:0\n",
    "dump.py": """import sys, numpy
from pytest_msdump.record import DumpWriter
with DumpWriter(sys.argv[1]) as writer:
    writer.write("a", numpy.float32(numpy.random.default_rng().random(3)))
""",
}

# Each line is typed after those before `;`. What makes a file is made in English.
COMMANDS = (
    f"init {LENET} {REFERENCE}",
    f"init {WRONG} {REFERENCE} --fusion {EXAMPLES}/04_ascend_fused_conv/fusion.json -o other.msdump.toml",
    COMPARED,
    f"{COMPARED} --full",
    f"{COMPARED} --detail 1",
    f"compare {WRONG} {REFERENCE} -d conv2",
    f"match {LENET} {REFERENCE}",
    f"match {LENET} {REFERENCE} --pair-by name",
    f"match {LENET} {REFERENCE} --pair-by map --suggest",
    f"match {LENET} {REFERENCE} --pair-by map --suggest --as python",
    f"inspect {ONE}",
    f"inspect {EXP}",
    f"inspect {GRAPH}",
    f"inspect {ONE} --line net.py:19",
    f"inspect {ONE} --check",
    f"inspect {ONE} --verify",
    f"inspect {EXAMPLES}/08_one_dump/device",
    f"overflow {ONE}",
    f"overflow {EXAMPLES}/08_one_dump/device --out overflow",
    f"{COMPARED}; check report/results.json --profile strict",
    f"init {WRONG} {REFERENCE}; {COMPARED} --config msdump.toml; accept report *conv2* --reason R-1 --until 2099-12-31",
    "calibrate reference perturbed --u 2**-24",
    f"convert {LENET} --out arrays",
    f"convert {REFERENCE} --to recording --out recording",
    f"sketch {REFERENCE} -o sketches",
    pytest.param(f"repeat -n 2 -- {sys.executable} dump.py {{directory}}", marks=pytest.mark.e2e),
    f"replay {WRONG} --graph {GRAPH}",
    f"replay {REFERENCE}",
    NEW,
    f"{NEW}; config check data_dump.json --mode o2",
    f"{NEW}; config explain data_dump.json",
    "config check config.json",
    "config explain config.json",
    "prototxt net.prototxt",
    f"{COMPARED}; report report",
    "rename named --pattern {op}-{slot}.npy --dry-run",
    "tfdbg tensors.txt",
)
WORDS = re.compile(r"(?:\b[A-Za-z][a-z']+ ){2,}[a-z']+\b")
# A file's own words: notes on a dump, code of the user's, what the vendor calls things, and init's own mark.
ALLOWED = re.compile(r"def construct|pt .* -r |an npy file|# by msdump init, [0-9a-f]{8}$")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in MADE.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "named").mkdir()
    np.save(tmp_path / "named" / "a-0.npy", np.ones(2))
    for name, towards in (("reference", 0), ("perturbed", np.inf)):
        shutil.copytree(REFERENCE, tmp_path / name)
        for path in (tmp_path / name).glob("*.npy"):
            array = np.load(path)
            if towards and array.dtype.kind == "f":
                np.save(path, np.nextafter(array, array.dtype.type(towards)))
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def typed(line: str, *more: str) -> int:
    words = line.split()
    end = words.index("--") if "--" in words else len(words)
    return cli.main([*words[:end], *more, *words[end:]])


def english_of(folder: Path, capsys: pytest.CaptureFixture[str], line: str, *more: str) -> list[str]:
    """What the last command prints and writes that reads as English."""
    *before, last = line.split("; ")
    for one in before:
        assert typed(one) in (0, 1)
    capsys.readouterr()
    assert typed(last, *more) in (0, 1)
    told = "".join(capsys.readouterr())
    told += "".join(path.read_text() for path in sorted(folder.glob("*.toml")) if "init" in last)
    assert re.search(r"[\u4e00-\u9fff]", told) or last.startswith(("tfdbg", "report"))
    return [found[0] for one in told.splitlines() if not ALLOWED.search(one) for found in [WORDS.search(one)] if found]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_says_nothing_in_english(folder, capsys, line) -> None:
    assert english_of(folder, capsys, line, "--lang", "zh") == []


@pytest.mark.parametrize("line", [COMMANDS[0], COMMANDS[6], f"overflow {ONE}", f"inspect {ONE}", NEW])
def test_the_locale_does_as_the_option(folder, capsys, monkeypatch, line) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert english_of(folder, capsys, line) == []


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_a_language_that_is_not_there_is_refused(capsys, command) -> None:
    verb = "check " if command == "config" else ""
    assert cli.main([command, *f"{verb}--lang xx a b".split()]) == 4
    assert "--lang" in capsys.readouterr().err


def test_an_update_knows_the_remarks_of_either_language(folder) -> None:
    """`init --update` takes out what it wrote itself; remarks in Chinese are its own, too."""
    lone = folder / "lone"
    shutil.copytree(REFERENCE, lone)
    np.save(lone / "extra.0.1795235446099999.npy", np.arange(7, dtype=np.float32))
    typed(f"init {LENET} {lone}", "--lang", "zh")
    first = (folder / "msdump.toml").read_text("utf-8")
    assert "# 以下右侧张量没有建议" in first
    typed(f"init {LENET} {lone} --update", "--lang", "en")
    text = (folder / "msdump.toml").read_text("utf-8")
    assert (text.count("extra"), "没有建议" in text, "no suggestion for" in text) == (1, False, True)
