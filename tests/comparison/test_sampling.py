"""A sample is compared with the same part of the other side, and is never taken for the whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dump_builder import write_mindspore
from semantics.gate import Answer, ask

from pytest_msdump.core.compare.align import LeadingRows
from pytest_msdump.core.errors import TensorShapeError
from pytest_msdump.core.model.tensor import TensorSpec

OP = "Default/fc-Dense/MatMul-op0"
WHOLE = np.arange(30, dtype=np.float32).reshape(10, 3) + 1


def write(
    root: Path,
    values: npt.ArrayLike,
    *,
    sample: int | None = None,
    device: str = "Ascend",
    memory_format: str = "DefaultFormat",
) -> Path:
    write_mindspore(root, [("MatMul", OP, "output", 0, values)])
    for path in root.rglob("*.npy"):
        path.rename(path.with_name(path.name.replace("DefaultFormat", memory_format)))
    folder = root / "rank_0" / ".dump_metadata"
    folder.mkdir(parents=True)
    e2e: dict[str, Any] = {} if sample is None else {"sample_mode": 1, "sample_num": sample}
    document = {"common_dump_settings": {"iteration": "all"}, "e2e_dump_settings": e2e}
    (folder / "data_dump.json").write_text(json.dumps(document))
    (folder / "config.json").write_text(json.dumps({"device_target": device}))
    return root


def verdict(answer: Answer) -> tuple[str, str]:
    return answer.record["verdict"], answer.sentences


def test_the_same_rows_are_compared_and_the_report_says_how_many(tmp_path: Path) -> None:
    answer = ask(write(tmp_path / "l", WHOLE[:4], sample=4), write(tmp_path / "r", WHOLE))
    assert verdict(answer) == ("warn", "sampled 12 of 30 elements: the run saved no more")
    # 4 of 10 rows of the right were compared.
    assert (answer.code, answer.results["coverage"]["value"]) == (1, 0.4)
    assert "not compared: Default/fc-Dense/MatMul-op0 (40 % compared)" in answer.text
    assert "1 of 1 right tensors have a partner, 1 of them compared in part" in answer.text
    assert ask(tmp_path / "l", tmp_path / "r", "--min-coverage", "40").code == 0
    record = answer.record
    assert (record["elements"], record["total_elements"], record["sampled"], record["equal"]) == (12, 30, True, True)
    assert "a sampled dump: of each tensor at most 4 elements along its first axis were saved" in answer.text
    assert "sampled 12 of 30 elements" in answer.text


@pytest.mark.parametrize(("row", "outcome"), [(3, "fail"), (4, "warn")])
def test_a_difference_counts_where_it_is_within_the_sample(row: int, outcome: str, tmp_path: Path) -> None:
    other = WHOLE.copy()
    other[row, 1] += 50
    answer = ask(write(tmp_path / "l", WHOLE[:4], sample=4), write(tmp_path / "r", other))
    assert answer.record["verdict"] == outcome
    if outcome == "fail":
        assert answer.record["worst"][0]["index"] == [3, 1]
        # numpy's word beside the engine's.
        assert answer.metrics["max_absolute_error"] == float(np.abs(WHOLE[:4] - other[:4]).max())


def test_two_samples_are_of_nobody_knows_how_many(tmp_path: Path) -> None:
    answer = ask(write(tmp_path / "l", WHOLE[:4], sample=4), write(tmp_path / "r", WHOLE[:4], sample=4))
    unknown = "sampled 12 of an unknown number of elements: the run saved no more"
    assert verdict(answer) == ("warn", unknown)
    assert "identical" not in answer.text
    answer = ask(write(tmp_path / "a", WHOLE[:4], sample=4), write(tmp_path / "b", WHOLE[:6], sample=6))
    assert verdict(answer) == ("warn", unknown)


@pytest.mark.parametrize(
    "left",
    [WHOLE.reshape(-1)[:4], WHOLE[:4, :2]],
    ids=["flat", "narrow"],
)
def test_what_no_known_rule_made_is_undefined(left: npt.NDArray[Any], tmp_path: Path) -> None:
    answer = ask(write(tmp_path / "l", left, sample=4), write(tmp_path / "r", WHOLE))
    outcome, sentence = verdict(answer)
    assert (answer.code, outcome, answer.record["elements"]) == (1, "undefined", None)
    assert "the rule by which it was taken is not known, so nothing was compared" in sentence


def test_a_device_s_memory_format_is_undefined(tmp_path: Path) -> None:
    blocks = np.zeros((4, 1, 5, 5, 16), np.float32)
    left = write(tmp_path / "l", blocks, sample=4, memory_format="NC1HWC0")
    answer = ask(left, write(tmp_path / "r", np.zeros((9, 3, 5, 5), np.float32)))
    assert verdict(answer)[0] == "undefined"
    assert "in NC1HWC0" in verdict(answer)[1]


class _Whole:
    """A view in memory, as far as the part of it needs one."""

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._values = values
        self.spec, self.dtype = TensorSpec(), "float32"
        self.shape, self.size = values.shape, values.size

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        return self._values.reshape(-1)[start:stop]

    def blocks(self, block_elements: int) -> Iterator[npt.NDArray[Any]]:
        yield self.read(0, block_elements)

    def permuted(self, axes: tuple[int, ...]) -> _Whole:
        return _Whole(self._values.transpose(axes))

    def close(self) -> None:
        pass


def test_a_part_ends_where_its_rows_end_and_keeps_its_first_axis() -> None:
    part = LeadingRows(_Whole(WHOLE), 2)
    assert (part.shape, part.size) == ((2, 3), 6)
    assert part.read(0, 100).tolist() == WHOLE[:2].reshape(-1).tolist()
    assert [block.tolist() for block in part.blocks(4)] == [[1, 2, 3, 4], [5, 6]]
    with pytest.raises(TensorShapeError, match="move the first axis of a sample"):
        part.permuted((1, 0))


def test_channels_last_meets_a_sample(tmp_path: Path) -> None:
    whole = np.arange(120, dtype=np.float32).reshape(5, 2, 3, 4)
    left = write(tmp_path / "l", whole[:2], sample=2)
    right = write(tmp_path / "r", np.ascontiguousarray(whole.transpose(0, 2, 3, 1)))
    suite = tmp_path / "msdump.toml"
    suite.write_text('[msdump]\nright_format = "NHWC"\n')
    answer = ask(left, right, "--config", str(suite))
    assert verdict(answer) == ("warn", "sampled 48 of 120 elements: the run saved no more")
