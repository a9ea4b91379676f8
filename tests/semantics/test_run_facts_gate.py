"""What runs say of themselves, from their files to reports, with dumps that MindSpore 2.10 wrote."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from semantics.gate import ask

from pytest_msdump.core.compare.opening import index

REAL = Path(__file__).parents[1] / "data" / "run_facts"
CONFIGURATION = "rank_0/.dump_metadata/data_dump.json"


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return Path(shutil.copytree(REAL / "whole", tmp_path / "whole"))


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A run with ReLU alone, its outputs alone, iterations 0, 2 and 3."""
    return Path(shutil.copytree(REAL / "listed", tmp_path / "listed"))


def tell(root: Path, *, e2e: dict[str, Any] | None = None, **keys: Any) -> None:
    path = root / CONFIGURATION
    document = json.loads(path.read_text("utf-8"))
    document["common_dump_settings"].update(keys)
    document["e2e_dump_settings"].update(e2e or {})
    path.write_text(json.dumps(document))


def test_every_tensor_that_was_not_dumped_says_why(listed: Path, whole: Path) -> None:
    answer = ask(listed, whole, "--io", "all")
    left_alone = Counter(entry["reason"] for entry in answer.results["unmatched"] if entry["side"] == "right")
    said = "on the left side"
    assert left_alone == {
        # MatMul, BiasAdd with inputs and outputs, three Parameters.
        f"not dumped: the kernels list of the left side does not name it (ReLU in {CONFIGURATION})": 12,
        f"not dumped: outputs only {said} (input_output in {CONFIGURATION})": 1,
        f'not dumped: iteration 1 is not selected {said} (iteration "0|2-3" in {CONFIGURATION})': 14,
    }
    assert answer.results["left"]["labels"]["ms_version"] == "2.10.0"
    right_alone = Counter(entry["reason"] for entry in answer.results["unmatched"] if entry["side"] == "left")
    assert list(right_alone) == [
        f'not dumped: iteration 2 is not selected on the right side (iteration "0|1" in {CONFIGURATION})',
        f'not dumped: iteration 3 is not selected on the right side (iteration "0|1" in {CONFIGURATION})',
    ]


def test_a_configuration_that_the_tensors_contradict_explains_nothing(whole: Path) -> None:
    tell(whole, kernels=["ReLU"], dump_mode=1, input_output=2, iteration="1")
    dump = index(whole)
    assert dump.run is not None
    (one,) = dump.run.configurations
    assert (one.kernels, one.io, one.iterations) == ((), "all", "all")
    (note,) = dump.notes
    assert note == (
        f"{CONFIGURATION} says outputs only and iteration '1' and the kernels ReLU, but there are other tensors: it is "
        "of another run"
    )


def test_a_run_that_could_not_dump_its_complex_tensors_says_that_it_ended(whole: Path) -> None:
    answer = ask(REAL / "complex", whole, reports=whole.parent / "reports")
    assert answer.code == 1
    assert "the run ended before it dumped a tensor" in answer.text


def test_an_exception_dump_is_called_one(whole: Path) -> None:
    shutil.rmtree(whole / "rank_0" / "Net" / "0" / "1")
    for path in (whole / "rank_0" / "Net" / "0" / "0").glob("*.output.*"):
        path.unlink()
    (whole / "rank_0" / ".dump_metadata" / "config.json").write_text('{"device_target": "Ascend", "ms_version": "2.6"}')
    tell(whole, op_debug_mode=4)
    dump = index(whole)
    assert dump.run is not None
    assert (
        "an exception dump (op_debug_mode 4): it has the inputs of an operator that raised an exception" in dump.notes
    )
    assert {ref.key.io for ref in dump.refs} == {"input"}


def test_on_a_cpu_an_exception_dump_has_parameters_alone(whole: Path) -> None:
    for path in (whole / "rank_0" / "Net").rglob("*-op*.npy"):
        path.unlink()
    tell(whole, op_debug_mode=4)
    assert (
        index(whole).notes[0] == "an exception dump (op_debug_mode 4), of which MindSpore writes Parameters only on CPU"
    )
