"""``pytest --msdump-calibrate``: the runs that it records, the file that it writes, and what it says."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.e2e

TEST = """
import numpy as np
from pathlib import Path
from pytest_msdump.record import DumpWriter

X = np.linspace(-2, 2, 6000, dtype="float32").reshape(60, 100)

def build(folder, *, perturb=None, control=None):
    with Path("calls").open("a") as file:
        file.write(f"{perturb and perturb.u} {control and control.name}\\n")
    with DumpWriter(folder, framework="numpy") as writer:
        writer.describe(inputs={"x": X})
        x = X
        if perturb is not None:
            x = perturb("x", X)
            writer.describe(perturbation={"u": perturb.u or 2.0**-24, "what": perturb.what, "seed": perturb.seed})
        if control is not None:
            writer.describe(notes=[control.note])
        writer.write("net/tanh", np.tanh(x), op_type="Tanh")

def port(folder, error):
    with DumpWriter(folder) as writer:
        writer.describe(inputs={"x": X})
        writer.write("net/tanh", np.tanh(X * np.float32(1 + error)))
    return folder

def limited(name, msdump, msdump_reference, folder, **options):
    reference = msdump_reference(name, build, key=X, **options)
    limits = f"msdump-references/{name}.limits.json"
    msdump.assert_dumps_close(port(folder / "good", 1e-7), reference, limits=limits)
    try:
        msdump.assert_dumps_close(port(folder / "bad", 1e-5), reference, limits=limits)
    except AssertionError as error:
        print(error)
        return
    assert False, "1e-5 passes"
"""
ONE = """
def test_port(msdump, msdump_reference, tmp_path):
    limited("net", msdump, msdump_reference, tmp_path{options})
"""


def calls(pytester):
    path = pytester.path / "calls"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


@pytest.mark.parametrize("processes", [(), ("-n", "2")])
def test_calibrated_limits_hold_in_the_next_run(pytester, processes):
    # The test runs twice, and both want the same reference.
    again = ONE.replace("test_port", "test_again").format(options="")
    pytester.makepyfile(TEST + ONE.format(options=', controls=("threads=1",)') + (again if not processes else ""))
    shown = pytester.runpytest_subprocess("--msdump-calibrate", "-rs", "-p", "no:cacheprovider", *processes)
    shown.assert_outcomes(skipped=1 if processes else 2)
    made = [
        "--msdump-calibrate wrote 1 limits file:",
        "  msdump-references/net.limits.json",
        'next: limits = "msdump-references/net.limits.json" in the suite file, or --msdump-limits=msdump-references/*',
    ]
    shown.stdout.fnmatch_lines(made, consecutive=True)
    shown.stdout.fnmatch_lines(["SKIPPED*--msdump-calibrate wrote msdump-references/net.limits.json"])
    assert calls(pytester) == ["None None", "None None", f"{2**-12} None", "None threads=1"]
    limits = json.loads((pytester.path / "msdump-references/net.limits.json").read_text("utf-8"))
    assert (limits["perturb"]["runs"], limits["perturb"]["u"], limits["perturb"]["seeds"]) == (1, 2.0**-24, [1])
    assert limits["perturb"]["coarse"] == [2.0**-12]
    assert limits["m_from"]["controls"] == 1
    assert sorted(path.name for path in (pytester.path / "msdump-references").iterdir()) == ["net", "net.limits.json"]
    passed = pytester.runpytest_subprocess("-rP", *processes)
    passed.assert_outcomes(passed=1 if processes else 2)
    passed.stdout.fnmatch_lines(["*net.limits.json: 12 × *FAIL"])
    passed.stdout.no_fnmatch_line("*msdump-calibrate*")
    assert calls(pytester) == []


def test_the_file_may_be_said_and_then_it_is_of_one_reference(pytester):
    pytester.makepyfile(
        TEST + ONE.format(options="") + ONE.format(options="").replace("net", "other").replace("port", "2")
    )
    shown = pytester.runpytest_subprocess("--msdump-calibrate", "--msdump-limits", "kept.json")
    shown.assert_outcomes(skipped=1, failed=1)
    shown.stdout.fnmatch_lines(["--msdump-limits names one file, and 'other' is not the first reference of this run*"])
    assert (pytester.path / "kept.json").is_file()
    assert not (pytester.path / "msdump-references/net.limits.json").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("*, perturb=None, control=None", ""),
            "*limits are calibrated from varied runs, and build takes no perturb and no control; *",
        ),
        (
            ("perturb=None, control=None", "perturb=None"),
            "*build takes no control; write it as def build(folder, [*], p*",
        ),
        (
            ("if perturb is not None", "if False"),
            "*build was given perturb=Perturbation(*and its recording does not say so*",
        ),
        (
            ("if control is not None", "if False"),
            "*build was given control=Control(*and its recording does not say so*",
        ),
        (("threads=1", "thread=1"), "*no control is called 'thread=1'; did you mean 'threads=N'?"),
        (('perturb("x", X)', "X"), "*every tensor is equal to the reference's*"),
    ],
)
def test_what_cannot_be_calibrated_is_one_clear_error(pytester, change, message):
    text = TEST + ONE.format(options=', controls=["threads=1"]')
    old, new = change
    text = text.replace(old, new)
    if not new:
        text = text.replace("with Path", "perturb = control = None\n    with Path")
    pytester.makepyfile(text)
    shown = pytester.runpytest_subprocess("--msdump-calibrate")
    shown.assert_outcomes(failed=1)
    shown.stdout.fnmatch_lines([message, "--msdump-calibrate wrote nothing: *"])
    shown.stdout.no_fnmatch_line("*Traceback*")
    shown.stdout.no_fnmatch_line("*During handling*")
    assert not (pytester.path / "msdump-references/net.limits.json").exists()


def test_fixtures_give_the_values(pytester):
    pytester.makepyfile(
        """
        from pytest_msdump.record import Control, Perturbation

        def test_it(msdump_perturb, msdump_control):
            assert msdump_perturb(1) == Perturbation(1)
            assert msdump_perturb(2, u=2**-12) == Perturbation(2, 2**-12)
            assert msdump_control("sdpa=math") == Control("sdpa=math")
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
