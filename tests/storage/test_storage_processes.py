"""URLs in pytest's own processes, and pairs that travel to others: what goes along is the URL, not its stand-in."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from plugin.suites import write_suite
from scheduling.dumps import LARGE, as_written, write_pairs
from storage.shelf import SHELF

from pytest_msdump.core.compare.comparing import compare_pair
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.report.json_report import read_json
from pytest_msdump.core.report.record_json import to_json
from pytest_msdump.core.suite import load_suite

pytestmark = pytest.mark.e2e

TESTS = Path(__file__).parents[1]


@pytest.fixture
def shelf(monkeypatch, lenet) -> str:
    """Every process sees the folder of lenet's dumps as ``shelf://``."""
    monkeypatch.setenv(SHELF, str(lenet))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")])))
    return "shelf://"


def gated(pytester: pytest.Pytester, lenet: Path, *words: str) -> tuple[pytest.RunResult, dict]:
    write_suite(pytester.path / "msdump.toml", lenet, "target_bad")
    sides = ("--msdump-left=shelf://target_bad", "--msdump-right=shelf://reference")
    if words:
        result = pytester.runpytest_subprocess("-p", "storage.shelf", *sides, *words)
    else:
        result = pytester.runpytest(*sides)
    return result, read_json(pytester.path / "msdump-report/results.json")


def test_the_gate_is_the_same_from_a_url_with_workers_and_without(pytester, shelf, lenet):
    assert shelf
    alone, report = gated(pytester, lenet)
    spread, by_workers = gated(pytester, lenet, "-n", "2")
    for result in (alone, spread):
        assert result.ret == 1
        result.stdout.re_match_lines([r".*left  = under test +shelf://target_bad ", r".*reference +shelf://reference "])
        assert not re.search("/msdump-(?!report)|shelf:/[^/]", result.stdout.str())
        assert re.search(r"(?m)^  left +rank_0/", result.stdout.str())
    assert alone.parseoutcomes() == spread.parseoutcomes()
    # Date and command differ.
    assert by_workers.pop("run").keys() == report.pop("run").keys()
    assert by_workers == report
    assert report["left"]["directory"] == "shelf://target_bad"
    write_suite(pytester.path / "msdump.toml", lenet, "target_bad")
    assert pytester.runpytest().ret == 1
    local = read_json(pytester.path / "msdump-report/results.json")
    assert local["tensors"] == report["tensors"]


def test_a_pair_is_compared_by_a_process_that_has_listed_nothing(shelf, lenet, tmp_path):
    options = {"left": f"{shelf}target_bad2", "right": f"{shelf}target", "io": "all"}
    planned = plan(load_suite(file=None, options=options, directory=tmp_path))
    pairs = planned.pairing.pairs
    assert len(pairs) > 20
    packed = pickle.dumps((pairs, planned.suite.policy))
    assert b"shelf:" in packed
    (tmp_path / "pairs").write_bytes(packed)
    program = (
        "import json, pickle, sys, storage.shelf\n"
        "from pathlib import Path\n"
        "from pytest_msdump.core.compare.comparing import compare_pair\n"
        "from pytest_msdump.core.report.record_json import to_json\n"
        "from pytest_msdump.core.storage.locations import parse_location\n"
        "pairs, policy = pickle.loads(Path('pairs').read_bytes())\n"
        "roots = tuple(parse_location(url, Path()) for url in sys.argv[1:])\n"
        "records = [compare_pair(pair, policy, roots=roots) for pair in pairs]\n"
        "print(json.dumps([to_json(one) for one in records]))"
    )
    words = [sys.executable, "-c", program, options["left"], options["right"]]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    local = plan(load_suite(file=None, options={**options, **sides(lenet)}, directory=tmp_path))
    roots = local.left.root, local.right.root
    expected = [to_json(compare_pair(pair, local.suite.policy, roots=roots)) for pair in local.pairing.pairs]
    found = json.loads(done.stdout)
    assert found == json.loads(json.dumps(expected))
    assert {"pass", "fail"} <= {record["verdict"] for record in found}


def sides(lenet: Path) -> dict[str, str]:
    return {"left": str(lenet / "target_bad2"), "right": str(lenet / "target")}


_HELPERS = (
    "import os, sys, threading\nfrom pathlib import Path\nimport fsspec\n"
    "from pytest_msdump.cli import main\n"
    "for file in sorted(Path('left').iterdir()):\n"
    "    fsspec.filesystem('memory').pipe_file(f'/bucket/left/{file.name}', file.read_bytes())\n"
    "helpers, start = [], threading.Thread.start\n"
    "threading.Thread.start = lambda self: helpers.append('thread') or start(self)\n"
    "assert main(['compare', sys.argv[1], 'right', '--quiet', *sys.argv[2:]]) == 1\n"
    "print(*sorted(set(helpers)))\n"
)


def test_a_connection_is_shared_with_no_process_and_no_thread(tmp_path: Path) -> None:
    """A storage may have one connection, on which each of them would take bytes that somebody else asked for."""
    write_pairs(tmp_path, [2 * LARGE] * 6, drifting=(1,))

    def helpers(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", _HELPERS, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    assert helpers("left", "--jobs", "2") == "thread"
    assert helpers("memory://bucket/left") == ""
    alone = as_written(tmp_path)
    assert helpers("memory://bucket/left", "--jobs", "2") == ""
    assert as_written(tmp_path) == alone


# Says that a pair is about to be compared, which takes as long as it may.
SLOW = """
import os, sys, time
import storage.shelf
from pytest_msdump.cli import main
from pytest_msdump.core.compare.comparing import Comparer
def slowly(*_):
    print("in", flush=True)
    time.sleep(60)
Comparer.compare = slowly
{before}
sys.exit(main({words}))
"""


def terminated(tmp_path: Path, *words: str, before: str = "", is_own: bool = True) -> int:
    """Compare, end that by SIGTERM, to its whole group, and return the exit code."""
    program = SLOW.format(before=before, words="" if is_own else "sys.argv[1:]")
    command = [sys.executable, "-c", program, "compare", "shelf://target_bad2", "shelf://target", *words]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout
        assert "in\n" in process.stdout
        os.killpg(process.pid, signal.SIGTERM)
        if "SIG_IGN" in before:
            time.sleep(0.3)
            assert process.poll() is None
            process.kill()
        assert process.stderr
        assert process.stderr.read() == ""
        code = process.wait(30)
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
    return code


@pytest.mark.skipif(os.name == "nt", reason="nothing there ends a process with its leave")
@pytest.mark.parametrize("jobs", ["1", "3"])
def test_a_command_that_is_terminated_leaves_nothing(shelf, tmp_path, monkeypatch, jobs):
    assert shelf
    (tmp_path / "t").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "t"))
    assert terminated(tmp_path, "--jobs", jobs) == 128 + signal.SIGTERM
    assert list((tmp_path / "t").iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="as above")
@pytest.mark.parametrize(
    ("before", "is_own", "code"),
    [
        ("", False, -signal.SIGTERM),
        ("import signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(7))", True, 7),
        ("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)", True, -signal.SIGKILL),
    ],
    ids=["a function", "a handler of its own", "ignored"],
)
def test_how_a_program_takes_sigterm_is_its_own_business(shelf, tmp_path, before, is_own, code):
    assert shelf
    assert terminated(tmp_path, before=before, is_own=is_own) == code
