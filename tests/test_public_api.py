"""An example that uses every public name, as the project of a user would: it runs, and `mypy --strict` reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import pytest_msdump
from pytest_msdump import (
    OpenDump,
    assert_close,
    assert_dumps_close,
    assert_no_overflow,
    assert_replay,
    compare,
    hooks,
    open_dump,
    record,
    write_detail,
)
from pytest_msdump.capabilities.kernels.operators.definition import Array, Call, Definition
from pytest_msdump.core.dumps.base import Reader
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.model.tensor import Pair
from pytest_msdump.core.report.base import ReportKind
from pytest_msdump.record import (
    Control,
    DumpWriter,
    Perturbation,
    RawArray,
    Recorder,
    assert_same_weights,
    from_caffe,
    keep_reference,
    load_weights,
    read_weights,
    save_weights,
    this_rank,
)
from pytest_msdump.testing import conformance
from pytest_msdump.testing.conformance import OperatorConformance, ReaderConformance, ReportConformance

LAYERS: Mapping[str, npt.NDArray[np.float32]] = {
    "fc1": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    "fc2": np.linspace(0, 2, 6, dtype=np.float32).reshape(3, 2),
}


def write_layers(folder: Path, factor: float = 1.0) -> None:
    """Write what the layers gave out, each a little off."""
    with DumpWriter(folder, framework="numpy", version=np.__version__, device="cpu") as writer:
        for name, values in LAYERS.items():
            writer.write(name, values * np.float32(factor))


# -- two sides ---------------------------------------------------------------------------------------------------------


def test_two_tensors_are_compared(tmp_path: Path) -> None:
    left, right = LAYERS["fc1"] * np.float32(1.5), LAYERS["fc1"]
    found: Record = compare(left, right, profile="strict", name="fc1", cosine=0.99, allclose=(1e-5, 1e-8))
    outcome: str = found.verdict.outcome
    assert outcome == "fail"
    assert found.fails
    assert_close(right, right)
    with pytest.raises(AssertionError, match="fc1"):
        assert_close(left, right, name="fc1")
    assert write_detail(left, right, directory=tmp_path, name="fc1", top=3).files


def test_two_dumps_are_compared(tmp_path: Path) -> None:
    write_layers(tmp_path / "run")
    kept = keep_reference("net", write_layers, directory=tmp_path / "kept", generate=True)
    dump: OpenDump = open_dump(kept)
    assert dump.read("fc2").shape == (3, 2)
    assert [ref.key.op.name for ref in dump.refs] == ["fc1", "fc2"]
    assert_no_overflow(dump)
    report: Report = assert_dumps_close(tmp_path / "run", kept, profile="strict", min_coverage=1.0)
    assert [one.verdict.outcome for one in report.records] == ["pass", "pass"]


# -- recordings and weights --------------------------------------------------------------------------------------------


def test_arrays_in_hand_are_recorded(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    with recorder.writer(name="run") as writer:
        file: Path = writer.write("out", RawArray(np.zeros(4, np.uint8), [2], "bfloat16"))
    assert file.exists()
    assert this_rank() is None
    seeds: list[int] = [Perturbation(seed).seed for seed in (1, 2)]
    threads: int | None = Control("threads=1").threads
    assert (seeds, threads) == ([1, 2], 1)


def test_weights_are_carried_over(tmp_path: Path) -> None:
    weights = {"fc1.weight": LAYERS["fc1"], "fc2.weight": LAYERS["fc2"]}
    file: Path = save_weights(weights, tmp_path / "weights.npz")
    assert_same_weights(file, weights)
    assert sorted(read_weights(file)) == sorted(weights)


def with_frameworks(model: Any, port: Any, run: Path, net: SimpleNamespace) -> None:
    """Show what takes a live model: read by mypy alone, since no framework is installed where this runs."""
    moved: list[str] = load_weights(port, model, map={"fc{i}": "layer{i}"}, cast=True)
    assert moved
    report: Report = assert_replay(model, run, min_replayed=0.9, profile="strict")
    assert not any(one.fails for one in report.records)
    caffe: Path = from_caffe(net, "net.prototxt", run)
    assert caffe


# -- hooks of conftest.py ----------------------------------------------------------------------------------------------


def pytest_msdump_pair(left: Dump, right: Dump) -> dict[str, str]:
    ours, theirs = ({ref.key.op.label for ref in dump.refs} for dump in (left, right))
    return {name: f"model.{name}" for name in sorted(ours) if f"model.{name}" in theirs}


def pytest_msdump_limits(pair: Pair) -> Mapping[str, float] | None:
    return {"cosine": 0.99} if pair.left.key.op.op_type == "Softmax" else None


def pytest_msdump_record(pair: Pair, record: Record) -> str | Record | None:
    return "owner: attention" if record.fails and "attn" in pair.left.key.op.label else None


def pytest_msdump_report(report: Report) -> list[str]:
    return [f"{sum(one.fails for one in report.records)} tensors to look at"]


# -- what packages inherit ---------------------------------------------------------------------------------------------


class MyReader(ReaderConformance):
    @pytest.fixture
    def reader(self) -> Reader:
        raise NotImplementedError

    @pytest.fixture
    def dump_root(self, tmp_path: Path) -> Path:
        return tmp_path / "dump"

    def is_side_file(self, relative: Path) -> bool:
        return relative.suffix == ".log"


class MyReport(ReportConformance):
    @pytest.fixture
    def kind(self) -> ReportKind:
        raise NotImplementedError


class MyOperator(OperatorConformance):
    @pytest.fixture
    def definition(self) -> Definition:
        raise NotImplementedError

    @pytest.fixture
    def cases(self) -> Sequence[tuple[Call, Sequence[Array]]]:
        return ()


# -- the example itself ------------------------------------------------------------------------------------------------


def public(face: ModuleType) -> list[str]:
    """The public names of a module; of the hooks, those that a conftest.py may define."""
    return list(getattr(face, "__all__", None) or [name for name in vars(face) if name.startswith("pytest_")])


@pytest.mark.parametrize("face", [pytest_msdump, hooks, record, conformance], ids=lambda face: face.__name__)
def test_the_example_uses_every_public_name(face: ModuleType) -> None:
    code = Path(__file__).read_text("utf-8").partition("\nLAYERS")[2]
    names = public(face)
    assert len(names) >= 3
    assert [name for name in names if not re.search(rf"\b{name}\b", code)] == []


def test_mypy_reads_the_example() -> None:
    configuration = (Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8")
    (files,) = re.findall(r"^files = (\[.+\])$", configuration, re.MULTILINE)
    assert "tests/test_public_api.py" in files
