"""MindSpore's strategy files: over which ranks each parameter of a run is cut, as protobuf or as JSON.

References: MindSpore 2.10: ``set_auto_parallel_context(strategy_ckpt_config=...)`` writes them,
``merge_pipeline_strategys`` joins those of the stages; the message ``ParallelStrategyMap`` of
`mindspore.train.node_strategy_pb2`; what the numbers mean say ``_get_tensor_strategy`` and
``_construct_tensor_layout_for_opt_shard`` of `mindspore.parallel._tensor`.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.capabilities.protobuf.wire import Memory, WireSource, WireSpan, fields, span_of, varint_of, varints
from pytest_msdump.capabilities.shards.model import Placement, Strategy
from pytest_msdump.core.errors import ConfigError, TensorFileError
from pytest_msdump.core.model.tensor import mangle
from pytest_msdump.core.storage.files import read_user_file

_MOST_BYTES = 2**26
_MOST_AXES = 32
_MOST_RANKS = 2**16
# Of a file of several stages each name begins with the number of its stage.
_STAGED = re.compile(r"(\d{1,5})-(.+)", re.ASCII | re.DOTALL)
_WANT = "give the file that MindSpore's strategy_ckpt_config names"


class _Layout(NamedTuple):
    """`maps` has for each dimension the axes that cut it, the outermost first; -1 = none."""

    matrix: Sequence[int]
    maps: Sequence[Sequence[int]]
    opt_step: int
    opt_size: int
    field: int


def read_strategy(path: Path, *, name: str) -> Strategy:
    """Read a strategy file, JSON if its name says so as in MindSpore; ConfigError, which begins with `name`."""
    raw = read_user_file(path, _MOST_BYTES, name=name, want=_WANT)
    try:
        stage, layouts = _of_json(raw) if path.suffix == ".json" else _of_message(Memory(raw, name))
        return _strategy(path.name, stage, layouts)
    except TensorFileError as error:
        raise ConfigError(f"{error}; {_WANT}") from None
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{name}: is no strategy file ({type(error).__name__}: {error}); {_WANT}") from None


def _strategy(name: str, stage: int, layouts: Mapping[str, _Layout]) -> Strategy:
    if not layouts:
        raise ValueError("no parallel_layout_item")
    staged = [(_STAGED.fullmatch(parameter), layout) for parameter, layout in layouts.items()]
    if all(match for match, _ in staged):
        found = [(match[2], int(match[1]), layout) for match, layout in staged if match]
    else:
        found = [(parameter, stage, layout) for parameter, layout in layouts.items()]
    stages = 1 + max(number for _, number, _ in found)
    count: defaultdict[str, int] = defaultdict(int)
    for parameter, _, _ in found:
        count[parameter] += 1
    placed: defaultdict[str, dict[int, Placement]] = defaultdict(dict)
    for parameter, number, layout in found:
        placed[parameter][number] = _placement(layout, stages, is_shared=count[parameter] > 1)
    # Dump files have mangled names.
    return Strategy(name, {mangle(parameter): stages for parameter, stages in placed.items()} | placed)


def _placement(layout: _Layout, stages: int, *, is_shared: bool) -> Placement:
    """Return a layout in the dims language: axis number n from the right of the device matrix is called ``an``."""
    sizes = {f"a{number}": size for number, size in enumerate(reversed(layout.matrix))}
    if min(sizes.values(), default=1) < 1 or len(sizes) > _MOST_AXES or prod(sizes.values()) * stages > _MOST_RANKS:
        raise ValueError(f"dev_matrix {list(layout.matrix)}")
    cuts = [[f"a{number}" for number in numbers if number != -1] for numbers in layout.maps]
    if unknown := [axis for one in cuts for axis in one if axis not in sizes]:
        raise ValueError(f"tensor_map has {unknown[0][1:]} for dev_matrix {list(layout.matrix)}")
    used = {axis for one in cuts for axis in one}
    sizes, of_optimizer = _with_optimizer(layout, sizes, used)
    axes = (*sizes.items(), ("pp", stages))
    if layout.field > 0 or of_optimizer is None or (of_optimizer and not cuts):
        # Named where the tensor is opened: dims could only be guessed.
        what = f"field={layout.field}, opt_weight_shard_step={layout.opt_step}, size={layout.opt_size}"
        return Placement(f"{what}, dev_matrix={list(layout.matrix)}", axes)
    if of_optimizer:
        cuts[0] += of_optimizer
        used |= {*of_optimizer}
    copies = [axis for axis, size in sizes.items() if axis not in used and size > 1] + ["pp"] * is_shared
    dims = " ".join(f"d{number}[{','.join(one)}]" if one else f"d{number}" for number, one in enumerate(cuts))
    return Placement(f"{dims} # {' '.join(f'{axis}:replicated' for axis in copies)}", axes)


def _with_optimizer(
    layout: _Layout, sizes: Mapping[str, int], used: set[str]
) -> tuple[dict[str, int], list[str] | None]:
    """Return the axes along which the optimizer cuts the first dimension once more, the outermost first."""
    if layout.opt_step == 0 or layout.opt_size == 0:
        return dict(sizes), []
    free = [axis for axis, size in sizes.items() if axis not in used and size > 1]
    left = prod(sizes[axis] for axis in free) if layout.opt_size == -1 else layout.opt_size
    made: dict[str, int] = {}
    taken: list[str] = []
    for axis, size in sizes.items():
        part = min(left, size)
        if axis not in free or left == 1:
            made[axis] = size
        elif size % part or left % part or (not taken and prod(made.values()) != layout.opt_step):
            return dict(sizes), None
        else:
            made |= {axis: part} if part == size else {axis: part, f"{axis}_rest": size // part}
            taken.insert(0, axis)
            left //= part
    return made, taken if left == 1 else None


# -- the two forms --


def _of_json(raw: bytes) -> tuple[int, Mapping[str, _Layout]]:
    document = json.loads(raw)
    nodes = document.get("parallel_strategy_item") or {}
    stage = next((_whole(node["stage"]) for node in nodes.values()), 0)
    return stage, {parameter: _of_item(item) for parameter, item in document["parallel_layout_item"].items()}


def _of_item(item: Mapping[str, Any]) -> _Layout:
    maps = [[_whole(axis) for axis in one] if isinstance(one, list) else [_whole(one)] for one in item["tensor_map"]]
    numbers = (_whole(item[key]) for key in ("opt_weight_shard_step", "opt_weight_shard_size", "field"))
    return _Layout([_whole(size) for size in item["dev_matrix"]], maps, *numbers)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _of_message(source: WireSource) -> tuple[int, Mapping[str, _Layout]]:
    stages: list[int] = []
    layouts: dict[str, _Layout] = {}
    for number, span in _messages(source, WireSpan(0, source.size)):
        if number == 2 and not stages:
            inner = [part for place, part in _messages(source, span) if place == 2]
            stages += [
                varint_of(source, field) for part in inner for field in fields(source, part) if field.number == 1
            ]
        elif number == 3:
            parts = dict(_messages(source, span))
            layouts[source.peek(parts[1].start, parts[1].length).decode()] = _of_layout(source, parts[2])
    return (stages[0] if stages else 0), layouts


def _of_layout(source: WireSource, span: WireSpan) -> _Layout:
    lists: defaultdict[int, list[list[int]]] = defaultdict(list)
    numbers: dict[int, int] = {}
    for field in fields(source, span):
        if field.number in (1, 2):
            dims = [one for one in fields(source, span_of(source, field)) if one.number == 1]
            lists[field.number].append([_signed(n) for one in dims for n in varints(source, one, _MOST_AXES)])
        elif field.number in (5, 6, 7):
            numbers[field.number] = _signed(varint_of(source, field))
    maps = lists[2]
    # As in MindSpore: one list is of one axis for each dimension, of several each is of one dimension.
    nested = [one for one in maps if one] if len(maps) > 1 else [[axis] for axis in maps[0]]
    return _Layout(lists[1][0], nested, numbers[6], numbers[7], numbers[5])


def _messages(source: WireSource, span: WireSpan) -> Iterator[tuple[int, WireSpan]]:
    return ((one.number, span_of(source, one)) for one in fields(source, span, most=2**20) if one.wire_type == 2)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
