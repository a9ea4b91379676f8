"""The fixtures that make dumps inside of a test."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.e2e

TEST = """
import numpy as np
from pathlib import Path
from pytest_msdump.record import DumpWriter

def build(folder):
    with Path("calls").open("a") as file:
        file.write("x")
    with DumpWriter(folder) as writer:
        writer.write("op", np.ones(2))

def ask(number, msdump, msdump_recorder, msdump_reference):
    right = msdump_reference("net", build, key=[1])
    with msdump_recorder.writer() as writer:
        writer.write("op", np.ones(2))
    msdump.assert_dumps_close(writer.directory, right)
"""
CASES = "".join(
    f"\ndef test_{number}(msdump, msdump_recorder, msdump_reference):\n"
    f"    ask({number}, msdump, msdump_recorder, msdump_reference)\n"
    for number in range(4)
)


def calls(pytester):
    path = pytester.path / "calls"
    return len(path.read_text()) if path.exists() else 0


@pytest.mark.parametrize("processes", [(), ("-n", "2")])
def test_the_reference_is_made_once_and_kept_over_sessions(pytester, processes):
    pytester.makepyfile(TEST + CASES)
    for expected, options in ((1, ()), (1, ()), (2, ("--msdump-generate",))):
        pytester.runpytest_subprocess(*processes, *options, "-p", "no:cacheprovider").assert_outcomes(passed=4)
        assert calls(pytester) == expected
    assert (pytester.path / "msdump-references/net/msdump.json").is_file()


@pytest.mark.parametrize("processes", [(), ("-n", "2")])
def test_what_generate_made_is_listed_with_the_command_that_uses_it(pytester, processes):
    pytester.makepyfile(TEST + CASES)
    # pytest then removes its temporary folder before anything is printed.
    pytester.makeini("[pytest]\ntmp_path_retention_policy = none\n")
    words = [*processes, "-p", "no:cacheprovider"]
    shown = pytester.runpytest_subprocess("--msdump-generate", *words).stdout
    made = [
        "--msdump-generate made 1 reference:",
        "  msdump-references/net",
        f"next: pytest --basetemp=* {' '.join(words)}",
    ]
    shown.fnmatch_lines(made, consecutive=True)
    shown = pytester.runpytest_subprocess("--msdump-generate", "--deselect=test_what", "-k", "nothing").stdout
    shown.fnmatch_lines(["--msdump-generate made nothing: no test that ran uses msdump_reference"])
    pytester.runpytest_subprocess(*words).stdout.no_fnmatch_line("*generate made*")


def test_a_program_that_fails_is_told_with_the_end_of_its_log(pytester):
    pytester.makepyfile(
        """
        import sys

        def test_it_dumps(msdump_recorder):
            assert len(msdump_recorder.run([sys.executable, "dumps.py", "{directory}"])) == 1

        def test_it_fails(msdump_recorder):
            msdump_recorder.mindspore("fails.py")
        """
    )
    pytester.path.joinpath("dumps.py").write_text(
        "import sys, numpy; numpy.save(sys.argv[1] + '/conv1.0.1700000000000000.npy', numpy.ones(2))"
    )
    pytester.path.joinpath("fails.py").write_text("print('loading'); raise ValueError('no such layer')")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "E *ProgramError: fails.py failed with exit code 1 after * s; the end of what it printed:",
            "E *| loading",
            "E *| ValueError: no such layer",
        ]
    )
