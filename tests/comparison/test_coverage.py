"""Coverage is the mean of the shares of the right tensors that were compared; whatever is left out of one counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dump_builder import write_mindspore, write_reference
from semantics.gate import Answer, ask

from pytest_msdump import assert_dumps_close
from pytest_msdump.cli import main
from pytest_msdump.record import DumpWriter

VALUES = np.random.default_rng(35).normal(size=(6, 4, 3)).astype(np.float32)
IDS = np.arange(1, 9)[None]


def stepwise(root: Path, lengths: list[int], *, extra: int = 0) -> None:
    """A sequence in steps of some tokens, each row its token's; `extra` padding behind each step, with junk rows."""
    start = 0
    for step, length in enumerate(lengths):
        ids = np.pad(IDS[:, start : start + length], ((0, 0), (0, extra)))
        rows = np.pad(np.sin(IDS[0, start : start + length, None] * np.ones(3))[None], ((0, 0), (0, extra), (0, 0)))
        folder = root / str(step)
        folder.mkdir(parents=True)
        np.save(folder / f"ids.0.{1_700_000_000_000_000}.npy", ids)
        np.save(folder / f"h.0.{1_700_000_000_000_001}.npy", rows.astype(np.float32))
        start += length


def by_tokens(folder: Path, more: str = "") -> Answer:
    text = '[msdump.shards]\ntokens = { ids = "ids", pad = 0, steps = "iteration" }\n'
    (folder / "s.toml").write_text(f"[msdump]\n{more}{text}")
    return ask(folder / "l", folder / "r", "--config", str(folder / "s.toml"))


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize(("tokens", "code"), [(1, 1), (3, 1), (4, 0), (8, 0)])
def test_tokens_that_the_run_did_not_reach_count_and_padding_does_not(
    tmp_path: Path, tokens: int, code: int, padding: int
) -> None:
    stepwise(tmp_path / "l", [1] * tokens)
    stepwise(tmp_path / "r", [4, 1, 1, 1, 1], extra=padding)
    answer = by_tokens(tmp_path)
    coverage = answer.results["coverage"]
    assert (answer.code, coverage["value"], coverage["right_paired"]) == (code, tokens / 8, 2)
    assert coverage.get("partly", 0) == 2 * (tokens < 8)
    assert f"2 pass, {tokens * 12.5:g} % of the reference compared" in answer.text
    assert ("ids (12.5 % compared), h (12.5 % compared)" in answer.text) is (tokens == 1)
    assert by_tokens(tmp_path, "min_coverage = 0\n").code == 0
    assert by_tokens(tmp_path, "min_coverage = 1\n").code == (tokens < 8)


# -- lists of operators ------------------------------------------------------------------------------------------------

NAMES = [f"Default/l{number}-Dense/MatMul-op{number}" for number in range(6)]


def listed(folder: Path, kernels: list[str], dumped: range, **common: Any) -> Path:
    """A run of MindSpore that dumped some of its operators."""
    write_mindspore(folder, [("MatMul", NAMES[number], "output", 0, VALUES[number]) for number in dumped])
    place = folder / "rank_0" / ".dump_metadata"
    place.mkdir(parents=True)
    settings = {"dump_mode": 1, "iteration": "all", "kernels": kernels, **common}
    (place / "data_dump.json").write_text(json.dumps({"common_dump_settings": settings}))
    (place / "config.json").write_text(json.dumps({"device_target": "CPU"}))
    return folder


def entries(pairs: dict[int, int]) -> str:
    maps = (f'[[msdump.map]]\nleft = "{NAMES[left]}"\nright = "t{right}"\n' for left, right in pairs.items())
    return "[msdump]\n" + "".join(maps)


@pytest.mark.parametrize(
    ("kernels", "dumped", "paired", "expected"),
    [
        # Chosen, dumped and paired: the rest of the reference was not asked for.
        (NAMES[:2], range(2), 2, (0, 1.0, 2, 4)),
        (["MatMul"], range(2), 2, (0, 1.0, 2, 4)),
        # One of three dumped operators has no partner; which right tensor it is, nothing says.
        (NAMES[:3], range(3), 2, (0, 2 / 3, 3, 3)),
        (NAMES[:4], range(4), 1, (1, 1 / 4, 4, 2)),
        # Listed, and not dumped.
        (NAMES[:5], range(2), 2, (1, 2 / 5, 5, 1)),
        # Without a list everything counts.
        ([], range(2), 2, (1, 2 / 6, 6, 0)),
    ],
)
def test_of_a_list_of_operators_only_their_partners_count(
    tmp_path: Path, kernels: list[str], dumped: range, paired: int, expected: tuple[int, float, int, int]
) -> None:
    listed(tmp_path / "l", kernels, dumped)
    write_reference(tmp_path / "r", {f"t{number}": one for number, one in enumerate(VALUES)})
    (tmp_path / "s.toml").write_text(entries({number: number for number in range(paired)}))
    answer = ask(tmp_path / "l", tmp_path / "r", "--config", str(tmp_path / "s.toml"))
    code, value, total, unlisted = expected
    coverage = answer.results["coverage"]
    assert (answer.code, coverage["right_total"], coverage.get("unlisted", 0)) == (code, total, unlisted)
    assert coverage["value"] == pytest.approx(value, rel=1e-12)
    assert ("since the left was configured to dump listed operators alone" in answer.text) is bool(unlisted)
    waiting = [one["name"] for one in coverage.get("uncompared", ()) if one["side"] == "left"]
    assert waiting == (NAMES[paired : len(dumped)] or NAMES[len(dumped) : len(kernels) * (len(kernels) > 1)])


# -- every road, and what a person chooses -----------------------------------------------------------------------------


def little(folder: Path) -> tuple[Path, Path]:
    write_reference(folder / "l", {"a": VALUES[0]})
    write_reference(folder / "r", dict.fromkeys("abcdefg", VALUES[0]))
    return folder / "l", folder / "r"


@pytest.mark.parametrize("profile", ["default", "strict", "torch", "ascend", "bitwise"])
def test_less_than_half_fails_in_every_road_and_profile(
    tmp_path: Path, profile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    left, right = little(tmp_path)
    answer = ask(left, right, "--profile", profile)
    assert answer.code == 1
    assert "not compared: b, c, d, e, f and 1 more" in answer.text
    assert "1 pass, 14.2 % of the reference compared" in answer.text
    results = str(tmp_path / "reports" / "results.json")
    assert main(["check", results]) == 1
    assert main(["check", results, "--min-coverage", "0"]) == 0
    assert main(["match", str(left), str(right)]) == 1
    with pytest.raises(AssertionError, match=r"coverage is 14\.2 %, below the 50 %"):
        assert_dumps_close(left, right, profile=profile)
    report = assert_dumps_close(left, right, profile=profile, min_coverage=0)
    assert [one.name for one in report.coverage.uncompared] == list("bcdef")
    capsys.readouterr()


@pytest.mark.parametrize(
    ("choice", "value", "total"),
    [
        ([], 1 / 7, 7),
        (["--select", "a"], 1.0, 1),
        (["--deselect", "[b-e]"], 1 / 3, 3),
        (["--select", "a", "--select", "b"], 0.5, 2),
    ],
)
def test_what_is_not_selected_does_not_count(tmp_path: Path, choice: list[str], value: float, total: int) -> None:
    coverage = ask(*little(tmp_path), *choice).results["coverage"]
    assert (coverage["value"], coverage["right_total"]) == (pytest.approx(value), total)


def test_each_iteration_and_occurrence_of_the_right_counts_unless_it_is_left_out(tmp_path: Path) -> None:
    for side, count in (("l", 1), ("r", 4)):
        with DumpWriter(tmp_path / side) as writer:
            for number in range(count):
                writer.write("x", VALUES[number])
    assert ask(tmp_path / "l", tmp_path / "r").results["coverage"]["value"] == 0.25
    for side, iterations in (("li", range(2)), ("ri", range(5))):
        for iteration in iterations:
            write_reference(tmp_path / side / str(iteration), {"x": VALUES[iteration]})
    answer = ask(tmp_path / "li", tmp_path / "ri")
    assert (answer.code, answer.results["coverage"]["value"]) == (1, 0.4)
    answer = ask(tmp_path / "li", tmp_path / "ri", "--iteration", "0-1")
    assert (answer.code, answer.results["coverage"]["value"]) == (0, 1.0)


def test_a_tensor_whose_shards_are_not_all_there_is_not_compared(tmp_path: Path) -> None:
    write_mindspore(tmp_path / "l", [("MatMul", NAMES[0], "output", 0, VALUES[0, :2])])
    write_mindspore(tmp_path / "r", [("MatMul", NAMES[0], "output", 0, VALUES[0])])
    text = '[msdump.shards]\nleft = { axes = { tp = 2 } }\n[[msdump.dims]]\nmatch = "*"\ndims = "s[tp] h"\n'
    (tmp_path / "s.toml").write_text(f"[msdump]\n{text}")
    answer = ask(tmp_path / "l", tmp_path / "r", "--config", str(tmp_path / "s.toml"))
    assert (answer.code, answer.results["coverage"]["value"], answer.record["verdict"]) == (1, 0.0, "error")
    assert "of the reference compared" not in answer.text.rpartition("1 tensor: 1 error")[2]
