"""Old command lines and new ones, `docs/howto/from-msaccucmp.md`'s among them: what both leave means the same."""

from __future__ import annotations

import csv
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from pytest_msdump import cli
from pytest_msdump.core.report.json_report import read_json

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "howto" / "from-msaccucmp.md"
GOLDEN = ROOT / "tests" / "data" / "ascend_golden"
EXAMPLES = ROOT / "example_suites"

PROTOTXT = """\
name: "n"
input: "data"
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
"""
EIGHT = {
    "CosineSimilarity": "cosine_similarity",
    "MaxAbsoluteError": "max_absolute_error",
    "AccumulatedRelativeError": "accumulated_relative_error",
    "RelativeEuclideanDistance": "relative_euclidean_distance",
    "MeanAbsoluteError": "mean_absolute_error",
    "RootMeanSquareError": "root_mean_square_error",
    "MaxRelativeError": "max_relative_error",
    "MeanRelativeError": "mean_relative_error",
}
# Of several files of a tensor the vendor's lines take the newest, and the new ones the first.
OLDER = (
    "conv1_relu.0.1600000000000050.npy",
    "Relu.dup_relu.12.1.1600000000000012",
    "Mul.two_iters.16.1.1600000000000016",
)
TENSOR_LIST = """\
2 dumped tensor(s):

t (ms)    Size (B) Op type    Tensor name
[0.000]   170      VariableV2 fc/weights:0
[33.354]  1.18k    MatMul     fc/MatMul:0
"""


class Row(NamedTuple):
    """An old command line and the one to type instead; what both are tried on, and what then is the same.

    `data` is a golden case or an example, `code` the exit code, `same` one of the functions ``same_…`` with words, and
    `prepare` what else is put there.
    """

    old: str
    new: str
    data: str
    code: str
    same: str
    prepare: str


class Ran(NamedTuple):
    """What a command line did in a folder of its own."""

    folder: Path
    code: int
    out: str
    err: str


def rows() -> list[Row]:
    """Return every pair of lines that is tried; the page shows one for each use."""
    lines = Path(__file__).with_name("msaccucmp_lines.tsv").read_text(encoding="utf-8").splitlines()
    return [Row(*line.split("\t")) for line in lines]


def rows_of_the_page() -> list[tuple[str, str]]:
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().strip("`").replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells and re.match(r"python3|timestamp=", cells[0]):
            found.append((cells[0], cells[1]))
    return found


# -- running ----------------------------------------------------------------------------------------------------------


def run(line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ran:
    """Run a line in this process where that can be done, else as a shell would."""
    monkeypatch.chdir(folder)
    main = program(line)
    if main is None:
        return in_shell(line, folder)
    code = main()
    return Ran(folder, code, *capsys.readouterr())


def program(line: str) -> Callable[[], int] | None:
    if re.search(r"[|>;]|\.\*", re.sub(r"'[^']*'|\"[^\"]*\"", "", line)):
        return None
    words = shlex.split(line)
    if words[0] == "msdump":
        return lambda: cli.main(words[1:])
    script = re.fullmatch(r"(\w+)\.pyc?", words[1])
    if script is None:
        return None
    module = importlib.import_module(f"pytest_msdump.compat.{script[1]}")
    return lambda: module.main(words[2:])


def in_shell(line: str, folder: Path) -> Ran:
    scripts = Path(sys.executable).parent
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ["PATH"] = f"{scripts}{os.pathsep}{environ['PATH']}"
    # The vendor's scripts by their names, as `program` has them.
    line = re.sub(r"python[\d.]* (\w+)\.pyc?\b", r"python -m pytest_msdump.compat.\1", line)
    ran = subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    return Ran(folder, ran.returncode, ran.stdout, ran.stderr)


# -- what is the same -------------------------------------------------------------------------------------------------


def report(folder: Path) -> dict:
    (file,) = folder.rglob("results.json")
    return read_json(file)


def same_report(old: Ran, new: Ran) -> None:
    """Every number and verdict, and everything without a partner."""
    ours, theirs = report(new.folder), report(old.folder)
    assert ours["tensors"]
    for key in ("tensors", "unmatched", "counts", "complete", "profile"):
        assert ours[key] == theirs[key], key


def same_gate(old: Ran, new: Ran) -> None:
    """As `same_report`; and each row of the vendor's table is in ops.csv, in every column that both have."""
    same_report(old, new)
    (theirs, their_rows), (ours, our_rows) = table(old, "*result_*.csv"), table(new, "ops.csv")
    shared = [title for title in theirs if title in ours]
    assert len(shared) > 10

    def cells(titles: list[str], rows: list[list[str]]) -> Counter[tuple[str, ...]]:
        return Counter(tuple(row[titles.index(title)] for title in shared) for row in rows)

    assert not cells(theirs, their_rows) - cells(ours, our_rows)


def table(ran: Ran, pattern: str) -> tuple[list[str], list[list[str]]]:
    (file,) = ran.folder.rglob(pattern)
    with file.open(newline="") as stream:
        first, *lines = csv.reader(stream)
    # Two titles are there twice.
    titles = [f"{title}{first[:place].count(title)}" for place, title in enumerate(first)]
    assert lines
    return titles, lines


def same_tensors(old: Ran, new: Ran) -> None:
    """Every number and verdict of what was chosen; of the rest nothing is said."""
    ours, theirs = report(new.folder)["tensors"], report(old.folder)["tensors"]
    assert ours == theirs != []


def same_pairs(old: Ran, new: Ran) -> None:
    """Who is compared with whom; what passes on a part of it is never more than a warning."""
    ours, theirs = report(new.folder)["tensors"], report(old.folder)["tensors"]
    names = [[(one["left"]["address"], one["right"]["address"]) for one in side] for side in (ours, theirs)]
    assert names[0] == names[1] != []
    assert not any(one["verdict"] == "pass" for one in theirs if (one["elements"] or 0) > 100)


def same_operators(old: Ran, new: Ran) -> None:
    """The mapping's operators that have a partner are the tests."""
    (file,) = old.folder.rglob("mapping_*.csv")
    with file.open(newline="") as stream:
        mapped = {
            row["TensorIndex"]
            for row in csv.DictReader(stream)
            if "NaN" not in (row["NPUDumpPath"], row["GroundTruthPath"])
        }
    names = {name.rsplit(":", 2)[0] for name in mapped}
    items = re.findall(r"^\S+::(.+)$", new.out, re.MULTILINE)
    assert set(items) - {"coverage"} == names != set()


def same_advice(old: Ran, new: Ran) -> None:
    """The first operator that fails is in the group that the advice names; numbers and verdicts are the same."""
    (file,) = old.folder.rglob("advisor_summary.txt")
    (number,) = re.findall(r"^Operator Index: (\d+)$", file.read_text(), re.MULTILINE)
    places = re.findall(
        r"^(?:DRIFT|ERROR|UNDEFINED)  (.+?):(?:input|output):\d\n(?: .*\n)*? +op (\d+) of", new.out, re.MULTILINE
    )
    first = min(places, key=lambda one: int(one[1]))[0]
    titles, lines = table(old, "result*.csv")
    places = titles.index("Index0"), titles.index("NPUDump0")
    assert (number, first) in {tuple(line[place] for place in places) for line in lines}
    same_report(old, new)


def same_eight(old: Ran, new: Ran) -> None:
    """Each number of the file is the report's, in six decimals."""
    (file,) = old.folder.rglob("file_result_*.txt")
    told = dict(line.split(": ", 1) for line in file.read_text().splitlines())
    (tensor,) = report(new.folder)["tensors"]
    assert told["Verdict"] == tensor["verdict"]
    for title, name in EIGHT.items():
        assert told[title] == f"{tensor['metrics'][name]:.6f}"


def same_details(old: Ran, new: Ran) -> None:
    """Files of the same names with the same lines; of two numbers, one has more digits."""
    theirs, ours = (
        {path.name: path.read_text() for path in (ran.folder / "out").iterdir() if path.suffix in (".csv", ".txt")}
        for ran in (old, new)
    )
    assert ours.keys() == theirs.keys()
    assert len(ours) >= 3
    for name, text in ours.items():
        mine, other = (re.split(r"[,:\s]+", one.strip()) for one in (text, theirs[name]))
        words = [(word, one) for word, one in zip(mine, other, strict=True) if word != one]
        for word, one in words:
            if word in ("LeftOp", "RightOp", "Left", "Right"):
                assert one in ("NPUDump", "GroundTruth")
            else:
                assert float(word) == pytest.approx(float(one), abs=1e-6)


def same_overflows(old: Ran, new: Ran) -> None:
    """Operators with YES are among those that overflow; of other types the column does not tell."""
    titles, lines = table(old, "result_*.csv")
    places = titles.index("NPUDump0"), titles.index("OverFlow0")
    said = {line[places[0]] for line in lines if line[places[1]] == "YES"}
    found = set(re.findall(r"^(?:ORIGIN|PROPAGATED|OVERFLOW) +(\S+)", new.out, re.MULTILINE))
    assert said
    assert said <= found


def same_files(old: Ran, new: Ran, *names: str) -> None:
    """These files, byte by byte."""
    for name in names:
        assert (old.folder / name).read_bytes() == (new.folder / name).read_bytes()


def same_table_and_report(old: Ran, new: Ran, name: str) -> None:
    same_files(old, new, name)
    same_report(old, new)
    assert len((new.folder / name).read_text().splitlines()) > 1


def same_folder_of(old: Ran, new: Ran, name: str) -> None:
    """The same files in a folder; a time in a name or a summary may differ, and the path of the folder of a run."""

    def files(ran: Ran) -> dict[str, bytes]:
        found = {path.name: path.read_bytes() for path in (ran.folder / name).iterdir()}
        return {
            re.sub(r"_\d{14}", "", name): data.replace(str(ran.folder).encode(), b"") for name, data in found.items()
        }

    assert files(old) == files(new) != {}


def same_but_padding(old: Ran, new: Ran) -> None:
    """One array each; what the older one has more of is channels, which come last in NHWC."""
    (theirs,), (ours,) = ([np.load(path) for path in (ran.folder / "out").iterdir()] for ran in (old, new))
    assert theirs.shape[-1] > ours.shape[-1]
    np.testing.assert_array_equal(theirs[..., : ours.shape[-1]], ours)


def same_values(old: Ran, new: Ran) -> None:
    """The numbers that numpy prints are within the range that is told."""
    values = np.load(old.folder / "left" / "a.npy")
    assert str(values) == old.out.strip()
    low, high = f"{values.min():.6g}", f"{values.max():.6g}"
    assert f"float32 {values.shape}" in new.out
    assert f"range {low} to {high}" in new.out


def same_answer(old: Ran, new: Ran) -> None:
    """That the exit codes agree is all."""
    assert (old.out, "DRIFT" in new.out) == ("", True)


def same_commands(old: Ran, new: Ran) -> None:
    """The same tensors to the same files, but for their times; the awk takes the titles for tensors."""
    ours, theirs = (
        [re.sub(r"\d{16}", "TIME", line) for line in (ran.folder / "tensor_name_cmd.txt").read_text().splitlines()]
        for ran in (new, old)
    )
    assert len(ours) == 2
    assert [line for line in theirs if line in ours] == ours


# -- the rows ---------------------------------------------------------------------------------------------------------


def link(folder: Path, name: str, target: str) -> None:
    shutil.copytree(folder / target, folder / name)


def close(folder: Path) -> None:
    """The same network with fusion off: here it is the same one."""
    link(folder, "closed", "left")
    shutil.copy(folder / "fusion.json", folder / "closed.json")


def batch(folder: Path) -> None:
    """The dump of a time, with one model."""
    place = folder / "20260121093000" / "0" / "net" / "1" / "0"
    place.parent.mkdir(parents=True)
    (folder / "left").rename(place)
    (folder / "rules").mkdir()
    model = json.loads((folder / "fusion.json").read_text())
    for graph in model["graph"]:
        graph["name"] = "net"
    (folder / "rules" / "net.json").write_text(json.dumps(model))


def compared(folder: Path) -> None:
    """What a comparison of before has left."""
    net = "python3 msaccucmp.py compare -m left -g right -f fusion.json -out out"
    ran = in_shell(f"cd {shlex.quote(str(folder))} && {net} && true", folder)
    assert ran.code == 1
    (result,) = (folder / "out").glob("result_*.csv")
    result.rename(folder / "out" / "result.csv")


def user_code(folder: Path) -> None:
    shutil.copytree(GOLDEN / "k_custom_alg" / "custom", folder / "custom")


def with_prototxt(folder: Path) -> None:
    (folder / "resnet.prototxt").write_text(PROTOTXT)


def with_tensor_list(folder: Path) -> None:
    (folder / "tensor_name").write_text(TENSOR_LIST)


ROWS = rows()

COMPAT = re.compile(r"python[\d.]* \w+\.pyc? ")
# The new spelling, told once on standard error.
PRINTED = re.compile(r"^\w+: [^:]+: (msdump .+)$", re.MULTILINE)


def test_every_row_of_the_page_is_one_that_is_tried() -> None:
    shown = rows_of_the_page()
    assert len(shown) > 10
    assert set(shown) <= {(row.old, row.new) for row in ROWS}
    assert len(ROWS) >= 62


def place(row: Row, folder: Path) -> Path:
    source = GOLDEN / row.data if (GOLDEN / row.data).is_dir() else EXAMPLES / row.data
    shutil.copytree(
        source, folder, ignore=shutil.ignore_patterns("expected", "msdump-report", "*.toml", "make_dumps.py", *OLDER)
    )
    if row.prepare:
        globals()[row.prepare](folder)
    return folder


@pytest.mark.e2e
@pytest.mark.parametrize("row", ROWS, ids=[f"{number}-{row.old[:60]}" for number, row in enumerate(ROWS)])
def test_old_and_new_do_the_same(
    row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    old = run(row.old, place(row, tmp_path / "old" / "case"), monkeypatch, capsys)
    new = run(row.new, place(row, tmp_path / "new" / "case"), monkeypatch, capsys)
    assert [old.code, new.code] == [int(row.code)] * 2
    check, *given = row.same.split(" ")
    globals()[check](old, new, *given)
    if COMPAT.match(row.old):
        (spelled,) = PRINTED.findall(old.err)
        # It may name folders of the first run, where everything still is.
        again = run(spelled, old.folder, monkeypatch, capsys)
        assert again.code == int(row.code), spelled
