"""Writes the JSON of a compiled model as ATC does: those of its keys that a comparison reads."""

from __future__ import annotations

from typing import Any


def text(value: str) -> dict[str, Any]:
    """Write a value of text."""
    return {"s": value}


def attribute(key: str, value: dict[str, Any]) -> dict[str, Any]:
    """Write one attribute."""
    return {"key": key, "value": value}


def operator(
    name: str,
    op_type: str,
    *,
    inputs: tuple[str, ...] = (),
    originals: tuple[str, ...] = (),
    origin: str | None = None,
    shape: tuple[int, ...] = (),
    dtype: str = "DT_FLOAT16",
) -> dict[str, Any]:
    """Write one operator.

    `inputs` are "producer:output"; `originals` the operators of the original model that it stands for: none if the
    compiler put it in, several if they were fused. `origin` is the one whose output it puts out: the last, unless said.
    """
    origin = origin if origin is not None else (originals or ("",))[-1]
    # A list without the member "s" is how ATC writes an empty list of names.
    names = {"list": {"val_type": "VT_LIST_STRING", **({"s": list(originals)} if originals else {})}}
    described = [
        attribute("_datadump_origin_name", text(origin)),
        attribute("_datadump_origin_output_index", {"i": 0}),
    ]
    if shape:
        described += [
            attribute("_datadump_origin_format", text("NCHW" if len(shape) == 4 else "ND")),
            attribute("origin_shape", {"list": {"val_type": "VT_LIST_INT", "i": list(shape)}}),
        ]
    return {
        "name": name,
        "type": op_type,
        "input": list(inputs),
        "attr": [attribute("_datadump_original_op_names", names)],
        "output_desc": [{"dtype": dtype, "attr": described}],
    }


def model(name: str, operators: list[dict[str, Any]]) -> dict[str, Any]:
    """Write the model: its operators in the order in which they run. As in ATC's files the first has no id: it is 0."""
    numbered = [{**({"id": place} if place else {}), **each} for place, each in enumerate(operators)]
    return {"name": name, "graph": [{"name": name, "op": numbered}]}
