"""``msdump init`` writes a first suite that runs as it stands, with limits that suit where both sides ran."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dump_builder import write_mindspore, write_reference

from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json
from pytest_msdump.core.suite import read_toml

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def _write(side: str, names: str, device: str = "", **more: str) -> None:
    values = np.random.default_rng(7).standard_normal((len(names), 4, 5)).astype(np.float32)
    write_reference(Path(side), dict(zip(names, values, strict=True)))
    if device:
        tensors = {path.name: {"op": path.name[0]} for path in Path(side).glob("*.npy")}
        manifest = {"schema_version": 1, "framework": "torch", "device": device, "complete": True, "tensors": tensors}
        (Path(side) / "msdump.json").write_text(json.dumps(manifest | more), "utf-8")


def _table() -> dict[str, object]:
    return dict(read_toml(Path("msdump.toml"))["msdump"])


def test_the_suite_runs_as_it_stands(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    pytester.chdir()
    _write("run", "abc")
    _write("ref", "abc")
    np.save("ref/d.0.1600000000000000.npy", np.float32([[1, 2], [3, 5]]))
    assert main(["init", "run", "ref"]) == 0
    printed = capsys.readouterr().out
    assert "msdump.toml is written: 0 entries, 0 ambiguous" in printed
    assert "1 right tensor without a suggestion" in " ".join(printed.split())
    assert "75 % of the right tensors have a partner, and less will fail (min_coverage)" in printed
    assert printed.endswith("next:\n  pytest msdump.toml\n")
    assert max(map(len, printed.partition("msdump.toml is written")[2].splitlines())) <= 80
    assert _table() == {"left": "run", "right": "ref", "profile": "default", "min_coverage": 0.75}
    pytester.runpytest("msdump.toml").assert_outcomes(passed=4)
    next(Path("run").glob("c.*")).unlink()
    pytester.runpytest("msdump.toml").assert_outcomes(passed=2, failed=1)


def test_partners_that_no_name_has_are_written_as_entries() -> None:
    _write("run", "abc")
    _write("ref", "xyz")
    assert main(["init", "run", "ref", "-o", "first.msdump.toml", "--quiet"]) == 0
    suite = read_toml(Path("first.msdump.toml"))
    assert [(one["left"], one["right"]) for one in suite["msdump"]["map"]] == [
        (f"{left}:output:0", f"{right}:output:0") for left, right in zip("abc", "xyz", strict=True)
    ]
    assert suite["msdump"]["min_coverage"] == 1.0


@pytest.mark.parametrize(
    ("left", "right", "policy", "profile", "why"),
    [
        ("cpu", "CPU", "", "strict", "both sides computed float32 on the CPU"),
        ("CPUExecutionProvider", "", "", "strict", "both sides computed float32 on the CPU"),
        ("Ascend", "cpu", "", "default", "Ascend may compute products of float32 with fewer bits"),
        ("cpu", "cuda", "", "default", "cuda may compute products of float32 with fewer bits"),
        ("", "cpu", "", "default", "nothing says on which device the left side ran"),
        ("cpu", "cpu", "autocast bfloat16", "default", "the left side ran in mixed precision: autocast bfloat16"),
    ],
)
def test_limits_follow_devices_and_types(
    left: str, right: str, policy: str, profile: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _write("run", "abc", left, **({"dtype_policy": policy} if policy else {}))
    _write("ref", "abc", right)
    assert main(["init", "run", "ref"]) == 0
    assert _table()["profile"] == profile
    assert f"  # {why}\n" in Path("msdump.toml").read_text("utf-8")
    assert f"limits: profile {profile}, since {why}" in " ".join(capsys.readouterr().out.split())


def test_update_makes_its_own_entries_anew_and_keeps_what_a_person_wrote(pytester: pytest.Pytester) -> None:
    pytester.chdir()
    _write("run", "abcd")
    _write("ref", "wxyz")
    assert main(["init", "run", "ref", "-q"]) == 0
    file = Path("msdump.toml")
    edited = file.read_text("utf-8").replace('right = "x:output:0"', 'right = "x:output:0"\nreshape = true')
    edited = (
        edited.replace('profile = "default"', 'profile = "ascend"')
        + "\n# by hand\n[[msdump.rule]]\nmatch = '*'\ncosine = 0.9\n"
    )
    file.write_text(edited, "utf-8")
    # c is now called e.
    for path in Path("run").glob("c.*"):
        path.rename(path.with_name(f"e{path.name[1:]}"))
    assert main(["init", "run", "ref", "-q"]) == 4
    assert main(["init", "run", "ref", "-q", "--update"]) == 0
    updated, table = file.read_text("utf-8"), _table()
    entries = {one["left"][0]: one for one in table.pop("map")}  # type: ignore[attr-defined]
    assert {left: one["right"][0] for left, one in entries.items()} == dict(zip("abed", "wxyz", strict=True))
    assert entries["b"]["reshape"]
    assert "# by hand" in updated
    assert (table["profile"], table["rule"]) == ("ascend", [{"match": "*", "cosine": 0.9}])
    pytester.runpytest("msdump.toml").assert_outcomes(passed=5)
    # Nothing is left to do.
    assert main(["init", "run", "ref", "-q", "--update"]) == 0
    assert sorted(file.read_text("utf-8").split()) == sorted(updated.split())


def _blocks(count: int, *, wrong: int | None = None, shift: int = 0, called: str = "beta", more: str = "") -> None:
    """Write a port of some equal blocks, and its reference, whose first block has a layer `called` otherwise.

    No word of a name is said by both, so that values alone show the partners.
    """
    arrays = iter(np.random.default_rng(8).standard_normal((40, 4, 5)).astype(np.float32))
    left, right = [], {}
    for number in range(count):
        layers = {"attn": "alpha", "mlp": "beta" if number else called}
        for place, (ours, theirs) in enumerate(layers.items()):
            array = next(arrays)
            scope = f"Default/network-Net/layers-CellList/{number + shift}-Block/{ours}-Dense"
            left.append(("MatMul", f"{scope}/MatMul-op{number * 7 + place * 3}", "output", 0, array))
            right[f"blocks.{number}.{theirs}"] = array * np.float32(1.2 if number == wrong else 1)
    left += [("MatMul", f"Default/network-Net/{more}", "output", 0, next(arrays))] if more else []
    for side in ("run", "ref"):
        shutil.rmtree(side, ignore_errors=True)
    write_mindspore(Path("run"), left)
    write_reference(Path("ref"), right)


def _written(suite: str = "msdump.toml") -> list[tuple[str, str]]:
    return [(one["left"], one["right"]) for one in read_toml(Path(suite))["msdump"]["map"]]


_TEMPLATES = [("layers.{i}.attn", "blocks.{i}.alpha"), ("layers.{i}.mlp", "blocks.{i}.beta")]


@pytest.mark.parametrize("wrong", [None, 5])
def test_equal_blocks_are_one_entry_which_says_how_many_and_what_differs_most(wrong: int | None) -> None:
    _blocks(12, wrong=wrong)
    assert main(["init", "run", "ref", "-q"]) == 0
    assert _written() == _TEMPLATES
    text = Path("msdump.toml").read_text("utf-8")
    assert text.count("# stands for 12 entries; the one that differs most: ") == 2
    # Of the reference, whose values are 1.2 times as large.
    assert text.count("differ by 0.17 of their norm") == (0 if wrong is None else 2)
    assert main(["compare", "--config", "msdump.toml", "--quiet"]) == (0 if wrong is None else 1)
    records = read_json(Path("msdump-report/results.json"))["tensors"]
    assert [one["right"]["address"].split(":")[0] for one in records] == [
        f"blocks.{number}.{name}" for number in range(12) for name in ("alpha", "beta")
    ]
    assert [n // 2 for n, one in enumerate(records) if one["verdict"] == "fail"] == ([] if wrong is None else [5, 5])
    # The same in a suite of match; as Python the map has each pair.
    assert main(["match", "run", "ref", "--suggest", "-o", "suggested.toml"]) == 0
    assert _written("suggested.toml") == _TEMPLATES
    # They are init's own, whatever number of blocks there is now; one that was edited is not.
    _blocks(3)
    assert main(["init", "run", "ref", "-q", "--update"]) == 0
    assert _written() == _TEMPLATES
    assert Path("msdump.toml").read_text("utf-8").count("# stands for 3 entries; ") == 2
    edited = Path("msdump.toml").read_text("utf-8").replace('"layers.{i}.mlp"', '"layers.{block}.mlp"')
    Path("msdump.toml").write_text(edited.replace('"blocks.{i}.beta"', '"blocks.{block}.beta"'), "utf-8")
    assert main(["init", "run", "ref", "-q", "--update"]) == 0
    assert _written() == [("layers.{block}.mlp", "blocks.{block}.beta"), _TEMPLATES[0]]


@pytest.mark.parametrize(
    ("made", "templates"),
    [
        ({"count": 1}, []),
        ({"shift": 1}, []),
        ({"called": "gamma"}, _TEMPLATES[:1]),
        ({"more": "layers-CellList/9-Block/attn-Dense/MatMul-op99"}, _TEMPLATES[1:]),
    ],
)
def test_blocks_that_are_not_all_there_or_counted_otherwise_keep_entries_of_their_own(
    made: dict[str, Any], templates: list[tuple[str, str]]
) -> None:
    _blocks(**({"count": 3} | made))
    assert main(["init", "run", "ref", "-q"]) == 0
    written = _written()
    assert [entry for entry in written if "{i}" in entry[0]] == templates
    assert len(written) == 2 * made.get("count", 3) - 2 * len(templates)
    assert main(["compare", "--config", "msdump.toml", "--quiet"]) == 0


def test_update_takes_a_suite_that_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    _write("run", "a")
    _write("ref", "a")
    assert main(["init", "run", "ref", "--update"]) == 4
    Path("msdump.toml").write_text("[other]\n", "utf-8")
    assert main(["init", "run", "ref", "--update"]) == 4
    assert "no table [msdump]" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [["inp", "act", "lin", "act", "inp", "act", "out"], ["inp", "act", "lin", "act", "lin", "out"]],
    ids=["other layer", "no activation"],
)
def test_no_entry_pairs_a_call_with_that_of_another_module(wrong: list[str], pytester: pytest.Pytester) -> None:
    """A layer that is called twice, the second time wrongly: the suite is right on the mended port."""
    pytester.chdir()
    right = ["inp", "act", "lin", "act", "lin", "act", "out"]
    values = np.random.default_rng(7).standard_normal((2, len(right), 4, 5)).astype(np.float32)
    for side, calls in (("ref", right), ("run", wrong), ("mended", right)):
        Path(side).mkdir()
        for number, name in enumerate(calls):
            np.save(
                f"{side}/{name}.0.{1700000000000000 + number}.npy", values[int(side == "run" and number > 3), number]
            )
    assert main(["init", "run", "ref", "-q"]) == 0
    assert pytester.runpytest("msdump.toml").ret == 1
    Path("run").rename("was")
    Path("mended").rename("run")
    assert pytester.runpytest("msdump.toml").ret == 0
