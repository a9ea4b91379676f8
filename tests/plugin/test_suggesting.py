"""``--msdump-suggest``: who may be the partner stands beside each tensor that has none, and pairs nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json


@pytest.fixture
def sides(lenet: Path) -> tuple[str, str]:
    return str(lenet / "target"), str(lenet / "reference")


def results(directory: Path) -> dict[str, Any]:
    found = read_json(directory / "results.json")
    assert isinstance(found, dict)
    return found


def told(unmatched: list[dict[str, Any]], side: str) -> dict[str, list[tuple[str, str]]]:
    return {
        one["address"]: [(other["address"], other["confidence"]) for other in one["suggestions"]]
        for one in unmatched
        if one["side"] == side
    }


def test_all_partners_of_lenet_are_suggested_on_both_sides_and_nothing_pairs(
    pytester: pytest.Pytester, sides: tuple[str, str], lenet: Path
) -> None:
    left, right = sides
    given = (
        f"--msdump-left={left}",
        f"--msdump-right={right}",
        "--msdump-pair-by=name",
        "--msdump-suggest",
        "--msdump-report=json,html",
    )
    assert pytester.runpytest(*given).ret == 1
    report = pytester.path / "msdump-report"
    found = results(report)
    entries = json.loads((lenet / "mapping.json").read_text("utf-8"))["entries"]
    pairs = {f"{one['reference']}:output:0": f"{one['target_op']}:output:0" for one in entries}
    assert told(found["unmatched"], "right") == {one: [(other, "clear")] for one, other in pairs.items()}
    of_left = told(found["unmatched"], "left")
    assert {address: one for address, one in of_left.items() if one} == {
        other: [(one, "clear")] for one, other in pairs.items()
    }
    assert len(of_left) > len(pairs)
    ways = {
        one["address"]: (one["shape"], one.get("by")) for entry in found["unmatched"] for one in entry["suggestions"]
    }
    assert ways["conv1:output:0"] == ("same", "structure")
    assert ways["flatten:output:0"] == ("reshaped", "structure")
    assert all(one["why"] for entry in found["unmatched"] for one in entry["suggestions"])
    assert (found["tensors"], found["coverage"]["right_paired"]) == ([], 0)
    page = (report / "index.html").read_text("utf-8")
    assert '"confidence":"clear"' in page.replace(" ", "")
    assert main(["report", str(report / "results.json"), "--out", "again"]) == 0
    assert (pytester.path / "again" / "index.html").read_text("utf-8") == page


@pytest.mark.parametrize("left", ["graph mode", "hook folder", "calls of a module"])
def test_where_nothing_pairs_the_next_entry_makes_a_true_pair_when_typed(
    left: str, sides: tuple[str, str], pytester: pytest.Pytester, capsys: Any
) -> None:
    run, reference = sides
    mapping = Path(__file__).parent.parent / "data/lenet/mapping.json"
    entries = json.loads(mapping.read_text("utf-8"))["entries"]
    true_pairs = {(f"{one['target_op']}:output:0", f"{one['reference']}:output:0") for one in entries}
    if left != "graph mode":
        run = str(pytester.mkdir("run"))
        for file in Path(reference).glob("*.npy"):
            shutil.copy(file, Path(run) / f"net.layer_{file.name}")
            if left != "hook folder":
                name, _, rest = file.name.partition(".0.")
                shutil.copy(file, Path(run) / f"net.layer_{name}.0.9{rest[1:]}")
        true_pairs = {(f"net.layer_{one['reference']}:output:0", f"{one['reference']}:output:0") for one in entries}
    main(["compare", run, reference, "--pair-by", "name"])
    typed = capsys.readouterr().out.partition("[[msdump.map]]")[2].splitlines()[1:3]
    assert "-op" not in typed[0]
    suite = "".join(f"{line.strip()}\n" for line in typed)
    (pytester.path / "typed.toml").write_text(
        f'[msdump]\nleft = "{run}"\nright = "{reference}"\npair_by = ["map"]\n[[msdump.map]]\n{suite}', "utf-8"
    )
    main(["compare", "--config", "typed.toml"])
    made = results(pytester.path / "msdump-report")["tensors"]
    assert [(one["how"], (one["left"]["address"], one["right"]["address"]) in true_pairs) for one in made] == [
        ("mapped", True)
    ]
