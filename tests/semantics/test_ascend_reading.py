"""What the vendor's tool gets wrong while it reads Ascend dumps; one law each, with the number of the fault."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from dumps.dumpmade import TIME, dump2, message, one_output, op_output, put
from semantics.ascend_made import device
from semantics.gate import Answer, ask

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"
FLOAT = 1


def values(*shape: int, seed: int = 3) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def verdicts(answer: Answer) -> dict[str, str]:
    """Verdict of each pair, by the left side's address and occurrence where there are several."""
    return {
        record["left"]["address"] + (f"#{record['occurrence']}" if record["occurrence"] else ""): record["verdict"]
        for record in answer.results["tensors"]
    }


def sentence(answer: Answer, address: str) -> str:
    (record,) = (one for one in answer.results["tensors"] if one["left"]["address"] == address)
    return str(record["findings"][0]["sentence"])


def test_data_that_is_too_short_is_an_error_even_where_what_is_there_is_equal(tmp_path: Path) -> None:
    """Fault 8: 100 bytes of 1554 were compared as a whole tensor, and found equal."""
    case = GOLDEN / "b5_broken_files"
    answer = ask(case / "left", case / "right", reports=tmp_path)
    left, right = (next((case / side).glob("*.shortdata.*")).read_bytes()[-100:] for side in ("left", "right"))
    assert left == right
    assert verdicts(answer)["shortdata:output:0"] == "error"
    assert "needs 1554 bytes, the header gives it 100" in sentence(answer, "shortdata:output:0")
    assert answer.code == 1


@pytest.mark.parametrize("content", [b"", b"\x40", b"garbage that is longer than eight bytes", bytes(100)])
def test_one_broken_file_stops_no_other(tmp_path: Path, content: bytes) -> None:
    """Fault 16: one operator that could not be compared ended the run with a table of no rows."""
    for side in ("left", "right"):
        for number, op in enumerate(("first", "broken", "last")):
            device(tmp_path / side, "Add", op, values(4), time=number)
    put(tmp_path / "left", f"Add.broken.1.1.{1600000000000001}", content)
    answer = ask(tmp_path / "left", tmp_path / "right")
    assert verdicts(answer) == {"first:output:0": "pass", "broken:output:0": "error", "last:output:0": "pass"}
    assert answer.code == 1


def test_one_operator_of_other_lengths_stops_no_other(tmp_path: Path) -> None:
    """Fault 16, its own case."""
    case = GOLDEN / "b6_one_bad_op_aborts"
    answer = ask(case / "left", case / "right", reports=tmp_path)
    assert verdicts(answer) == {
        "good_first:output:0": "pass",
        "perm_same_dims:output:0": "error",
        "good_last:output:0": "pass",
    }


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mapping.csv", b""),
        ("mapping.csv", b"no comma at all\n,\n1,2,3\n\xff\xfe"),
        (f"Add.odd.1.1.{TIME}.7.1.0.0", None),
        (f"Opdebug.Node_OpDebug.5.{TIME}", None),
        (f"Opdebug.Node_OpDebug.5.9.{TIME}", b"cut"),
        ("99999999999999999999", None),
    ],
)
def test_odd_files_beside_the_dumps_end_nothing(tmp_path: Path, name: str, content: bytes | None) -> None:
    """Fault 18: an empty mapping.csv, a task type of 7 and an Opdebug without stream id each ended the run."""
    for side in ("left", "right"):
        device(tmp_path / side, "Add", "op", values(4))
        put(tmp_path / side, name, one_output(values(4)) if content is None else content)
    answer = ask(tmp_path / "left", tmp_path / "right")
    assert (answer.code, verdicts(answer)) == (0, {"op:output:0": "pass"})


# Prints how much memory a run took at most, in KiB; a process of its own, since that number never falls. Not from
# `getrusage`, which counts the parent's memory, too.
MEASURED = """
import re, sys
from pathlib import Path
from semantics.gate import ask
answer = ask(Path(sys.argv[1]), Path(sys.argv[2]))
(most,) = re.findall("VmHWM:\\s*([0-9]+) kB", Path("/proc/self/status").read_text())
print(answer.record["elements"], answer.record["verdict"], most)
"""


@pytest.mark.e2e
def test_nothing_is_held_whole_however_large_it_is(tmp_path: Path) -> None:
    """Fault 20: a file larger than a quarter of the free memory left no worker to compare it."""
    count = 2**25
    header = dump2(message(outputs=[op_output(FLOAT, (count,), 4 * count)]))
    for side, first in (("left", 1.0), ("right", 2.0)):
        path = put(tmp_path / side, f"Add.large.1.1.{TIME}", header + np.float32(first).tobytes())
        # The rest is a hole, zeros that take no place on the disk.
        os.truncate(path, len(header) + 4 * count)
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", MEASURED, str(tmp_path / "left"), str(tmp_path / "right")]
    done = subprocess.run(command, cwd=tests, capture_output=True, text=True, check=True)
    elements, verdict, peak = done.stdout.split()
    assert (int(elements), verdict) == (count, "fail")
    assert int(peak) * 1024 < 4 * count


@pytest.mark.parametrize(
    "name", ["onnx::node", "sp ace", "back\\slash", "a.dot", "scope/op", "-minus", "=SUM(A1)", "層"]
)
def test_names_meet_whatever_is_in_them(tmp_path: Path, name: str) -> None:
    """Fault 28: names with a colon, space, backslash or dot never met; 17: one with a minus ended the table."""
    written = name
    for character in "./\\ ":
        written = written.replace(character, "_")
    put(tmp_path / "left", f"Add.{written}.1.1.{TIME}", one_output(values(4)))
    # On the right as a script may save it: with what file systems allow.
    (tmp_path / "right").mkdir()
    np.save(tmp_path / "right" / f"{name.replace('/', '_')}.0.{TIME}.npy", values(4))
    answer = ask(tmp_path / "left", tmp_path / "right")
    assert (answer.code, len(answer.results["tensors"]), answer.results["unmatched"]) == (0, 1, [])
