"""Fused operators of GE are judged by the composition of their originals, whether the kernel rounds between or not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dump_builder import write_mindspore

from pytest_msdump.capabilities.kernels.again import Replay, replay
from pytest_msdump.core.compare.opening import index
from pytest_msdump.core.text import say

Array = npt.NDArray[Any]
DT = {"float16": "DT_FLOAT16", "float32": "DT_FLOAT"}
SHAPE = (24, 32)


def op(kind: str, name: str, inputs: Sequence[str], shape: Sequence[int] = SHAPE, **attributes: Any) -> dict[str, Any]:
    """Return an operator as the JSON of a compiled model has it; attributes beginning with "_" are the compiler's."""
    attr = [{"key": key, "value": value} for key, value in attributes.items()]
    origin = {"key": "origin_shape", "value": {"list": {"i": list(shape)}}}
    desc = {"dtype": "DT_FLOAT16", "shape": {"dim": list(shape)}, "attr": [origin]}
    return {"name": name, "type": kind, "input": list(inputs), "attr": attr, "output_desc": [desc]}


def originals(*names: str) -> dict[str, Any]:
    return {"_datadump_original_op_names": {"list": {"s": list(names)}}}


BEFORE = [
    op("Data", "x", []),
    op("Const", "w", [], (32, 32)),
    op("Const", "b", [], (32,)),
    op("MatMulV2", "dense", ["x:0", "w:0"], transpose_x1={"b": False}, transpose_x2={"b": True}),
    op("BiasAdd", "bias", ["dense:0", "b:0"], data_format={"s": "NHWC"}),
    op("LeakyRelu", "act", ["bias:0"], negative_slope={"f": 0.20000000298023224}),
]
INSERTED = originals()
FUSED = [
    op("Data", "x", []),
    op("TransData", "trans_0", ["x:0"], **INSERTED),
    op("Const", "w", [], (32, 32), **INSERTED),
    op("Const", "b", [], (32,), **INSERTED),
    op("MatMulV2", "dense/bias/act", ["trans_0:0", "w:0", "b:0"], **originals("dense", "bias", "act")),
]


def text_of(entries: Sequence[Mapping[str, Any]]) -> str:
    """Write operators as GE's own text has them."""

    def values(value: Any) -> str:
        if isinstance(value, dict):
            return " ".join(f"{key} {{ {values(one)} }}" if isinstance(one, dict) else field(key, one)
                            for key, one in value.items())  # fmt: skip
        return ""

    def field(key: str, value: Any) -> str:
        if isinstance(value, list):
            return " ".join(f"{key} {{ {values(one)} }}" if isinstance(one, dict) else field(key, one) for one in value)
        if key == "dtype":
            return f"dtype: {value}"
        return f"{key}: {json.dumps(value)}"

    return 'name: "net"\ngraph {\n' + "\n".join(f"op {{ {values(entry)} }}" for entry in entries) + "\n}\n"


def replayed(
    root: Path,
    made: Array,
    given: Sequence[Array],
    *,
    before: Sequence[Mapping[str, Any]] = BEFORE,
    fused: Sequence[Mapping[str, Any]] = FUSED,
    is_json: bool = True,
) -> Replay:
    """Dump the last operator of the fused model, and replay it."""
    kind, name = str(fused[-1]["type"]), str(fused[-1]["name"])
    tensors = [(kind, name, "input", slot, value) for slot, value in enumerate(given)]
    write_mindspore(root / "run", [*tensors, (kind, name, "output", 0, made)], execution_order=False)
    files = []
    for title, entries in (("fused", fused), ("before", before)):
        files.append(root / f"{title}.{'json' if is_json else 'txt'}")
        files[-1].write_text(json.dumps({"graph": [{"op": list(entries)}]}) if is_json else text_of(entries))
    return replay(index(root / "run", graph_files=files))


def inputs(dtype: str) -> list[Array]:
    random = np.random.default_rng(4)
    return [random.normal(size=shape).astype(dtype) for shape in (SHAPE, (32, 32), 32)]


def kernel(x: Array, w: Array, b: Array, *, between: str, slope: float = 0.2) -> Array:
    """Compute in float32, rounded to `between` after each original."""
    made = (x.astype(np.float32) @ w.T.astype(np.float32)).astype(between)
    made = (made.astype(np.float32) + b.astype(np.float32)).astype(between).astype(np.float32)
    return np.where(made > 0, made, np.float32(slope) * made).astype(x.dtype)


@pytest.mark.parametrize("is_json", [True, False], ids=["json", "text"])
@pytest.mark.parametrize(("dtype", "between"), [("float32", "float32"), ("float16", "float32"), ("float16", "float16")])
def test_fused_kernels_are_sound_however_they_round(dtype: str, between: str, is_json: bool, tmp_path: Path) -> None:
    given = inputs(dtype)
    stored = "DT_FLOAT" if dtype == "float32" else "DT_FLOAT16"
    before, fused = (json.loads(json.dumps(entries).replace("DT_FLOAT16", stored)) for entries in (BEFORE, FUSED))
    made = kernel(*given, between=between)
    found = replayed(tmp_path, made, given, before=before, fused=fused, is_json=is_json)
    assert (found.calls, found.accused, found.refused) == (1, (), ())


def swapped(made: Array) -> Array:
    return made[[1, 0, *range(2, len(made))]]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "fault",
    [
        lambda given: kernel(*given, between="float32", slope=0.21),
        lambda given: kernel(given[0], given[1], given[2] * 0, between="float32"),
        lambda given: kernel(given[0], given[1].T, given[2], between="float32"),
        lambda given: swapped(kernel(*given, between="float32")),
        lambda given: (kernel(*given, between="float32") * 1.002).astype(given[0].dtype),
    ],
    ids=["slope", "bias left out", "transposed", "rows swapped", "scale"],
)
def test_wrong_fused_kernels_are_accused(dtype: str, fault: Any, tmp_path: Path) -> None:
    given = inputs(dtype)
    found = replayed(tmp_path, fault(given), given)
    assert [one.op.name for one in found.accused] == ["dense_bias_act"]


def changed(number: int, **values: Any) -> list[dict[str, Any]]:
    return [{**entry, **values} if place == number else entry for place, entry in enumerate(BEFORE)]


@pytest.mark.parametrize(
    ("before", "fused", "why"),
    [
        (BEFORE[:-1], FUSED, "it is fused, and no graph has its original act; name one from before the fusion"),
        (changed(5, type="Unheard"), FUSED, "no definition of Unheard"),
        # Weights that a compiler folded are other ones.
        (changed(4, input=["dense:0", "gamma:0"]), FUSED, "and gamma, which goes into its originals, does not go into"),
        (changed(5, type="Conv2D", input=["bias:0", "w:0"], attr=[]), FUSED, "not 4-D"),
        (changed(5, type="Transpose", attr=[]), FUSED, "its attribute perm is not known"),
        (changed(3, input=["act:0", "w:0"]), FUSED, "its attributes do not fit its inputs"),
        (BEFORE, [*FUSED[:-1], op("MatMulV2", "dense/bias/act", ["trans_0:0", "w:0", "b:0"],
            _datadump_is_multiop={"b": True}, **originals("dense", "bias", "act"))], "does not cover L1 fusion"),
    ],
)  # fmt: skip
def test_what_cannot_be_composed_says_why(before: Any, fused: Any, why: str, tmp_path: Path) -> None:
    given = inputs("float16")
    found = replayed(tmp_path, kernel(*given, between="float32"), given, before=before, fused=fused)
    (one,) = found.refused
    assert why in say(one.why)
    assert found.replayed == ()


def test_errors_of_an_original_pass_through_the_next(tmp_path: Path) -> None:
    """A difference of nearly equal products is as uncertain as these are."""
    before = [
        op("Data", "x", []),
        op("Data", "y", []),
        op("Exp", "one", ["x:0"]),
        op("Exp", "other", ["y:0"]),
        op("Sub", "apart", ["one:0", "other:0"]),
    ]
    fused = [*before[:2], op("Sub", "whole", ["x:0", "y:0"], **originals("one", "other", "apart"))]
    x = np.random.default_rng(2).normal(size=SHAPE).astype(np.float32)
    y = x + np.float32(1e-6)
    made = np.exp(x) * np.float32(1 + 1.5e-6) - np.exp(y)
    assert replayed(tmp_path, made, [x, y], before=before, fused=fused).accused == ()
    wrong = np.exp(x) * np.float32(1 + 1e-4) - np.exp(y)
    assert len(replayed(tmp_path / "wrong", wrong, [x, y], before=before, fused=fused).accused) == 1
