"""Failing comparisons of every kind of side, for `law`: a network, one fault, and how each side was saved.

Whether a comparison fails, and by what factor, is worked out from float64 formulas and documented limits; nothing of
the package decides it.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from campaign.expected import LIMITS, judged, metrics
from campaign.stored import Values
from campaign.trials import NotHereError, Outcome, Side, Sides
from dump_builder import START, write_mindspore

from pytest_msdump.record import DumpWriter

Array = npt.NDArray[Any]
Tensors = dict[str, Values]
Row = dict[str, Any]

BATCH, LENGTH, WIDTH = 8, 8, 96
NAMES = ("dense", "act", "residual", "norm", "scores", "ids")
FLOATS = ("float64", "float32", "float16", "bfloat16")
SIDES: tuple[Side, Side] = ("left", "right")

# -- the network -------------------------------------------------------------------------------------------------------


def as_type(array: npt.ArrayLike, dtype: str) -> Array:
    """Round to the nearest number of a type; bfloat16 stays in float32."""
    with np.errstate(over="ignore"):
        if dtype != "bfloat16":
            return np.asarray(array).astype(dtype)
        bits = np.asarray(array, np.float32).view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isfinite(bits.view(np.float32)), rounded, bits & np.uint32(0xFFFF0000)).view(np.float32)


def weights_of(rng: np.random.Generator) -> dict[str, Array]:
    """Weights and the input of a network."""
    small = {name: rng.normal(size=(WIDTH, WIDTH)) / WIDTH**0.5 for name in ("w1", "w2")}
    return small | {"x": rng.normal(size=(BATCH, LENGTH, WIDTH))}


def run(weights: Mapping[str, Array], dtype: str, *, computed: str | None = None) -> Tensors:
    """Compute the network, each tensor rounded to `dtype`; sums are those of the `computed` type, or of float32."""
    wide = computed or ("float64" if dtype == "float64" else "float32")
    w1, w2, x = (as_type(weights[name], dtype).astype(wide) for name in ("w1", "w2", "x"))
    values: dict[str, Array] = {}

    def keep(name: str, array: Array) -> Array:
        values[name] = as_type(array, dtype)
        return values[name].astype(wide)

    dense = keep("dense", x @ w1)
    act = keep("act", dense / (1 + np.exp(-1.702 * dense)))
    residual = keep("residual", act @ w2 + x)
    norm = keep("norm", residual / np.sqrt((residual**2).mean(-1, keepdims=True) + 1e-6))
    scores = keep("scores", norm @ w1.T)
    found = {name: Values(array, dtype, b"") for name, array in values.items()}
    return found | {"ids": Values(scores.argmax(-1).astype(np.int32), "int32", b"")}


# -- faults ------------------------------------------------------------------------------------------------------------

Fault = Callable[[Array, np.random.Generator, float], Array]


def _rms(array: Array) -> float:
    return float(np.sqrt(np.square(array.astype(np.float64)).mean()))


def _noisy(array: Array, rng: np.random.Generator, size: float) -> Array:
    return array + size * _rms(array) * rng.normal(size=array.shape)


def _scaled(array: Array, _: np.random.Generator, size: float) -> Array:
    return array * (1 + size)


def _shifted(array: Array, _: np.random.Generator, size: float) -> Array:
    return array + size * _rms(array)


def _channel(array: Array, rng: np.random.Generator, size: float) -> Array:
    array = array.copy()
    array[..., rng.integers(array.shape[-1])] += size * array.shape[-1] ** 0.5 * _rms(array)
    return array


def _element(array: Array, rng: np.random.Generator, size: float) -> Array:
    array = array.copy()
    array.flat[rng.integers(array.size)] += size * array.size**0.5 * _rms(array)
    return array


def _permuted(array: Array, _: np.random.Generator, __: float) -> Array:
    return array[..., ::-1]


def _rolled(array: Array, _: np.random.Generator, __: float) -> Array:
    return np.roll(array, 1, axis=1)


def _negated(array: Array, _: np.random.Generator, __: float) -> Array:
    return -array


def _zeroed(array: Array, _: np.random.Generator, __: float) -> Array:
    return np.zeros_like(array)


def _not_a_number(array: Array, rng: np.random.Generator, _: float) -> Array:
    array = array.copy()
    array.flat[rng.integers(array.size, size=3)] = np.nan
    return array


SIZED: tuple[Fault, ...] = (_noisy, _scaled, _shifted, _channel, _element)
WHOLE: tuple[Fault, ...] = (_permuted, _rolled, _negated, _zeroed, _not_a_number)
# How many times the limit on the relative Euclidean distance.
SIZES = (4.0, 30.0, 1000.0)


def _wrong_ids(array: Array, rng: np.random.Generator) -> Array:
    """Other ids in one place, in some, or in all; larger than any that was there, so that statistics show it."""
    array = array.copy()
    places = rng.permutation(array.size)[: int(rng.choice([1, array.size // 4, array.size]))]
    array.flat[places] = WIDTH + rng.integers(1, 9, places.size)
    return array


# -- truth -------------------------------------------------------------------------------------------------------------


def excess(left: Values, right: Values, profile: str = "default") -> float:
    """By what factor two whole tensors miss the limits of a profile; 0 where they meet them."""
    assert left.array is not None
    assert right.array is not None
    if judged(left, right, profile=profile) != "fail":
        return 0.0
    if right.dtype not in FLOATS or not np.isfinite(left.array).all() or not np.isfinite(right.array).all():
        return np.inf
    limits = LIMITS[profile][max(left.dtype, right.dtype, key=FLOATS.index)]
    found = metrics(left.array.astype(np.longdouble).ravel(), right.array.astype(np.longdouble).ravel())
    return max(
        found.relative_euclidean_distance / limits.relative_euclidean_distance,
        found.normalized_max_error / limits.normalized_max_error,
    )


def statistics_of(values: Values) -> Row:
    """The numbers that runs save of a tensor, in float64, and its bytes' digests."""
    assert values.array is not None
    array, wide = values.array, values.array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    raw = (array.view(np.uint32) >> 16).astype(np.uint16) if values.dtype == "bfloat16" else array
    data = np.ascontiguousarray(raw).tobytes()
    words = np.frombuffer(data + b"\0" * (-len(data) % 8), "u8")
    wide_words = np.ascontiguousarray(wide if values.dtype in FLOATS else array.astype("i8")).view("u8")
    return {
        "dtype": values.dtype,
        "shape": list(array.shape),
        "maximum": float(finite.max()) if finite.size else None,
        "minimum": float(finite.min()) if finite.size else None,
        "mean": float(finite.mean()) if finite.size else None,
        "l2_norm": float(np.sqrt((wide**2).sum())),
        "l1_norm": float(np.abs(wide).sum()),
        "crc32": f"{zlib.crc32(data):08x}",
        "xor": f"0x{int(np.bitwise_xor.reduce(words)):016x}",
        "xor_wide": int(np.bitwise_xor.reduce(wide_words.ravel())),
        "md5": hashlib.md5(data, usedforsecurity=False).hexdigest(),
        "sha1": hashlib.sha1(data, usedforsecurity=False).hexdigest(),
    }


def statistic_excess(left: Values, right: Values, *, l1_only: bool) -> float:
    """By what factor saved numbers alone show that limits are missed."""
    one, other = statistics_of(left), statistics_of(right)
    if right.dtype not in FLOATS:
        return np.inf if one["maximum"] != other["maximum"] and not l1_only else 0.0
    limits = LIMITS["default"][max(left.dtype, right.dtype, key=FLOATS.index)]
    norm = "l1_norm" if l1_only else "l2_norm"
    if one["maximum"] is None or not np.isfinite(one[norm]):
        return np.inf
    apart = abs(one[norm] - other[norm]) / other[norm] / limits.relative_euclidean_distance
    largest = max(abs(other["maximum"]), abs(other["minimum"]))
    ends = [abs(one[end] - other[end]) / largest / limits.normalized_max_error for end in ("maximum", "minimum")]
    # Printed with six digits, and the mean of many elements says little.
    return apart if l1_only else max(apart if apart > 1 else 0.0, *ends)


# -- a comparison ------------------------------------------------------------------------------------------------------


@dataclass
class Comparison(Sides):
    """Two sides below a folder that must not pass, and what is said to the gate about them.

    `wrong` is the tensor that fails, `excess` by what factor it misses its limit. `rows` change what is saved of a
    tensor, `after` the folders; `ask` is a way of asking of its own.
    """

    root: Path
    rng: np.random.Generator
    store: Store
    dtype: str
    weights: dict[str, Array]
    tested: Tensors
    reference: Tensors
    wrong: str
    fault: str
    excess: float
    settings: dict[str, Any] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    rows: list[Callable[[Side, str, Row], None]] = field(default_factory=list)
    after: list[Callable[[], None]] = field(default_factory=list)
    ask: Callable[[Comparison], Outcome] | None = None

    def folder(self, side: str) -> Path:
        """The dump of a side, or of another run."""
        return self.root / side

    def tensors(self, side: Side) -> Tensors:
        """The tensors of a side."""
        return self.tested if side == "left" else self.reference

    def row(self, side: Side, name: str, values: Values) -> Row:
        """What a side says of a tensor."""
        found = statistics_of(values)
        for change in self.rows:
            change(side, name, found)
        return found

    def write(self) -> None:
        """Save both sides."""
        for side in SIDES:
            self.store.write(self, side)
        self.tables += self.store.tables
        for change in self.after:
            change()

    def suite(self) -> Path:
        """Write the suite file."""
        said = {side: f"{side}/{self.store.file}".rstrip("/") for side in SIDES} | dict(self.settings)
        lines = ["[msdump]", *(f"{key} = {json.dumps(value)}" for key, value in said.items()), *self.tables]
        file = self.root / "msdump.toml"
        file.write_text("\n".join(lines) + "\n", "utf-8")
        return file

    def given(self, side: str) -> str:
        """What is given of a side: a folder, or its only file."""
        return str(self.folder(side) / self.store.file)

    @property
    def told(self) -> str:
        """What was compared, in a line."""
        return f"{self.store.name}, {self.dtype}: {self.fault} in {self.wrong}, {self.excess:.3g} x its limit"


class Store(NamedTuple):
    """A way of saving a side; `shows` says by what factor it shows a fault. `tables` are the suite's.

    `file` is the one that is given, in place of its folder.
    """

    name: str
    write: Callable[[Comparison, Side], None]
    dtypes: Sequence[str] = FLOATS
    shows: Callable[[Values, Values], float] = excess
    tables: Sequence[str] = ()
    integers: bool = True
    file: str = ""


def comparison(root: Path, rng: np.random.Generator, stores: Sequence[Store]) -> Comparison:
    """Draw a comparison that fails."""
    store = stores[rng.integers(len(stores))]
    dtype = str(rng.choice(store.dtypes))
    for _ in range(40):
        weights = weights_of(rng)
        right = run(weights, dtype)
        wrong = str(rng.choice(NAMES if store.integers else NAMES[:-1]))
        if store.name == "masked":
            wrong = "scores"
            right[wrong] = Values(_masked(right[wrong].array, rng, dtype), dtype, b"")
        old = right[wrong].array
        assert old is not None
        if wrong == "ids":
            fault, new = "other ids", _wrong_ids(old, rng)
        else:
            chosen = (*SIZED, *WHOLE)[rng.integers(len(SIZED) + len(WHOLE))]
            limit = LIMITS["default"][dtype].relative_euclidean_distance
            size = float(rng.choice(SIZES)) * limit
            # A masked element stays what it is.
            seen = np.abs(old.astype(np.float64)) < 1e3
            with np.errstate(over="ignore", invalid="ignore"):
                changed = chosen(np.where(seen, old, 0).astype(np.float64), rng, size)
            fault, new = chosen.__name__.strip("_"), as_type(np.where(seen, changed, old), dtype)
        left = dict(right) | {wrong: Values(new, right[wrong].dtype, b"")}
        found = _unmasked_excess(left[wrong], right[wrong]) if store.name == "masked" else 0.0
        found = found or store.shows(left[wrong], right[wrong])
        if found >= 2.5:
            return Comparison(root, rng, store, dtype, weights, left, right, wrong, fault, found)
    raise NotHereError


def _masked(array: Array | None, rng: np.random.Generator, dtype: str) -> Array:
    """Scores with an additive or a filled mask above the diagonal of each block."""
    assert array is not None
    filled = float(rng.choice([-1e4, -3e4] if dtype == "float16" else [-1e4, -1e9, -3.3e38]))
    above = np.triu(np.ones(array.shape[-2:], bool), 1)
    kept = array.astype(np.float64)
    masked = kept + filled if rng.random() < 0.5 else np.full_like(kept, filled)
    return as_type(np.where(above, masked, kept), dtype)


def _unmasked_excess(left: Values, right: Values) -> float:
    assert left.array is not None
    assert right.array is not None
    seen = np.abs(right.array) < 1e3
    return excess(left._replace(array=left.array[seen]), right._replace(array=right.array[seen]))


# -- how a side is saved -----------------------------------------------------------------------------------------------


def _bits(values: Values) -> Array:
    assert values.array is not None
    return (values.array.view(np.uint32) >> 16).astype(np.uint16) if values.dtype == "bfloat16" else values.array


def write_folder(folder: Path, tensors: Tensors, *, manifest: bool = False) -> None:
    """Write ``OP.0.TIME.npy`` files, and where a type needs it, or it is asked for, what they are."""
    folder.mkdir(parents=True, exist_ok=True)
    entries: dict[str, Any] = {}
    for number, (name, values) in enumerate(tensors.items()):
        file = f"{name}.0.{START + 100 * number}.npy"
        np.save(folder / file, _bits(values))
        entries[file] = {"op": name} | ({"dtype": values.dtype} if values.dtype == "bfloat16" else {})
    if manifest or any(len(entry) > 1 for entry in entries.values()):
        (folder / "msdump.json").write_text(json.dumps({"schema_version": 1, "tensors": entries}), "utf-8")


def npy_folder(case: Comparison, side: Side) -> None:
    write_folder(case.folder(side), case.tensors(side))


def recorded(case: Comparison, side: Side, **options: Any) -> None:
    record(case.folder(side), case.tensors(side), case.weights, **options)


def record(folder: Path, tensors: Tensors, weights: Mapping[str, Array], **options: Any) -> None:
    """Write as recorders do, with digests of weights and inputs."""
    with DumpWriter(folder, framework="numpy", **options) as writer:
        writer.describe(inputs={"x": weights["x"]}, weights={name: weights[name] for name in ("w1", "w2")})
        for name, values in tensors.items():
            writer.write(name, _bits(values), dtype=values.dtype)


def sketched(case: Comparison, side: Side) -> None:
    recorded(case, side, save="sketch")


def half_sketched(case: Comparison, side: Side) -> None:
    """One side as sketches, the other as tensors."""
    recorded(case, side, save="sketch" if (side == "left") == (case.wrong < "n") else "full")


def safetensors(case: Comparison, side: Side) -> None:
    header, data = {}, b""
    names = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int32": "I32"}
    for name, values in case.tensors(side).items():
        raw = _bits(values)
        start, data = len(data), data + raw.tobytes()
        header[name] = {"dtype": names[values.dtype], "shape": list(raw.shape), "data_offsets": [start, len(data)]}
    text = json.dumps(header).encode()
    case.folder(side).mkdir()
    file = case.folder(side) / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(text)) + text + data)


def npz(case: Comparison, side: Side) -> None:
    case.folder(side).mkdir()
    arrays = {name: values.array for name, values in case.tensors(side).items() if values.array is not None}
    np.savez(case.folder(side) / "run.npz", **arrays)  # type: ignore[arg-type]


def mindspore(case: Comparison, side: Side) -> None:
    for number, (name, values) in enumerate(case.tensors(side).items()):
        one = ("MatMul", f"Default/{name}", "output", 0, values.array)
        bfloat16 = "bfloat16" if values.dtype == "bfloat16" else None
        write_mindspore(case.folder(side), [one], dtype=bfloat16, start=START + 100 * number)  # type: ignore[list-item]


def msprobe(case: Comparison, side: Side) -> None:
    data = {}
    for name, values in case.tensors(side).items():
        row = case.row(side, name, values)
        leaf = {"type": "torch.Tensor", "dtype": f"torch.{row['dtype']}", "shape": row["shape"]}
        keys = {"Max": "maximum", "Min": "minimum", "Mean": "mean", "Norm": "l2_norm", "md5": "digest"}
        leaf |= {key: row[ours] for key, ours in keys.items() if ours in row}
        data[f"Module.{name}.Linear.forward.0"] = {"input_args": [], "input_kwargs": {}, "output": [leaf]}
    folder = case.folder(side) / "step0" / "rank0"
    folder.mkdir(parents=True)
    text = json.dumps(
        {"task": "statistics", "level": "L0", "framework": "pytorch", "dump_data_dir": None, "data": data}
    )
    (folder / "dump.json").write_text(text, "utf-8")
    for name in ("construct", "stack"):
        (folder / f"{name}.json").write_text("{}", "utf-8")


COLUMNS = {"Max Value": "maximum", "Min Value": "minimum", "Avg Value": "mean", "L2Norm Value": "l2_norm"}
DIGEST_COLUMNS = {"MD5": "md5", "SHA1": "sha1"}


def statistic_table(case: Comparison, side: Side) -> None:
    """MindSpore's ``statistic.csv``, in place of tensors."""
    folder = case.folder(side) / "rank_0" / "Net" / "0" / "0"
    folder.mkdir(parents=True, exist_ok=True)
    rows = {name: case.row(side, name, values) for name, values in case.tensors(side).items()}
    columns = COLUMNS | {
        title: key for title, key in DIGEST_COLUMNS.items() if any("digest" in r for r in rows.values())
    }
    lines = ["Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape," + ",".join(columns)]
    for number, (name, row) in enumerate(rows.items()):
        shape = f'"({",".join(map(str, row["shape"]))})"'
        size = int(np.prod(row["shape"])) * 4
        cells = [_cell(row.get("digest" if title == "MD5" else key)) for title, key in columns.items()]
        lines.append(f"MatMul,{name},1,2,{START + number},output,0,{size},{row['dtype']},{shape},{','.join(cells)}")
    (folder / "statistic.csv").write_text("\n".join(lines) + "\n", "utf-8")


def _cell(value: Any) -> str:
    return "null" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def debug_log(case: Comparison, side: Side) -> None:
    """A log of PyTorch's DebugMode: L1 norms, and XORs of all elements as 64 bits."""
    logs: list[Row] = []
    for name, values in case.tensors(side).items():
        row = case.row(side, name, values)
        numbers = [row["l1_norm"], *([row["digest"]] if "digest" in row else [])]
        scalars = [{"type": "scalar", "value": number} for number in numbers]
        hashed = scalars[0] if len(scalars) == 1 else {"type": "tuple", "items": scalars}
        short = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int32": "i32"}
        shape = f"t: {short[row['dtype']]}[{', '.join(map(str, row['shape']))}]"
        common = {"output_str": None, "stack_trace": None, "fwd_stack_trace": None}
        logs.append(
            {"call_depth": 1, "log": None, **common, "type": "annotate", "tag": f"Net.{name}", "header": "nn.Mod"}
        )
        said = {"type": "dict", "items": [["hash", hashed]]}
        op = {"type": "op", "op_name": "aten::addmm", "args_str": shape, "kwargs_str": ""}
        logs.append({"call_depth": 2, "log": said, **common, **op, "output_str": f"  ->  {shape}"})
    case.folder(side).mkdir()
    text = json.dumps({"format": "torch.utils._debug_mode.DebugMode.logs", "version": 1, "logs": logs})
    (case.folder(side) / "rank_0.json").write_text(text, "utf-8")


def sharded(case: Comparison, side: Side) -> None:
    """The left is cut over two ranks, ids are copied."""
    for rank in range(2 if side == "left" else 1):
        folder = case.folder(side) / (f"rank_{rank}" if side == "left" else "")
        folder.mkdir(parents=True)
        for name, values in case.tensors(side).items():
            assert values.array is not None
            is_cut = side == "left" and values.array.ndim == 3
            np.save(folder / f"{name}.npy", np.split(values.array, 2, -1)[rank] if is_cut else values.array)


SHARDS = (
    "[msdump.shards]",
    "left = { axes = { tp = 2 } }",
    "[[msdump.dims]]",
    'match = "*"',
    'dims = "b s h[tp]"',
    "[[msdump.dims]]",
    'match = "ids"',
    'dims = "b s # tp:replicated"',
)


def tokens(case: Comparison, side: Side) -> None:
    """Batches of other padding: three tokens more, before or behind."""
    first = np.arange(1, BATCH * LENGTH + 1, dtype=np.int32).reshape(BATCH, LENGTH)
    padded: Tensors = {"input_ids": Values(np.pad(first, ((0, 0), _padding(side))), "int32", b"")}
    for name, values in case.tensors(side).items():
        assert values.array is not None
        width = [(0, 0), _padding(side), *([(0, 0)] * (values.array.ndim - 2))]
        padded[name] = values._replace(array=np.pad(values.array, width, constant_values=7 if side == "left" else 3))
    write_folder(case.folder(side), padded)


def _padding(side: Side) -> tuple[int, int]:
    return (3, 0) if side == "left" else (0, 3)


TOKENS = ("[msdump.shards]", 'tokens = { ids = "input_ids", pad = 0 }')


def steps(case: Comparison, side: Side) -> None:
    """The left computes one token at a time, the right all of them at once."""
    ids = np.arange(1, BATCH * LENGTH + 1, dtype=np.int32).reshape(BATCH, LENGTH)
    every = {"input_ids": Values(ids, "int32", b""), **case.tensors(side)}
    if side == "right":
        write_folder(case.folder(side), every)
        return
    for number in range(LENGTH):
        part = {
            name: values._replace(array=np.ascontiguousarray(values.array[:, number : number + 1]))
            for name, values in every.items()
            if values.array is not None
        }
        write_folder(case.folder(side) / str(number), part)


STEPS = ("[msdump.shards]", 'tokens = { ids = "input_ids", steps = "iteration" }')


def _by_statistics(left: Values, right: Values) -> float:
    return statistic_excess(left, right, l1_only=False)


def _by_l1_norm(left: Values, right: Values) -> float:
    return statistic_excess(left, right, l1_only=True)


def _by_sketch(left: Values, right: Values) -> float:
    """A sketch shows distances, and counts of what is not finite, but no single element."""
    assert left.array is not None
    assert right.array is not None
    if right.dtype not in FLOATS or not np.isfinite(left.array).all():
        return excess(left, right)
    found = metrics(left.array.astype(np.longdouble).ravel(), right.array.astype(np.longdouble).ravel())
    return found.relative_euclidean_distance / LIMITS["default"][right.dtype].relative_euclidean_distance


STORES = {
    store.name: store
    for store in (
        Store("npy", npy_folder),
        Store("recorded", recorded),
        Store("safetensors", safetensors, file="model.safetensors"),
        Store("npz", npz, FLOATS[:3], file="run.npz"),
        Store("mindspore", mindspore),
        Store("masked", npy_folder, integers=False),
        Store("sketch", sketched, shows=_by_sketch),
        Store("half sketched", half_sketched, shows=_by_sketch),
        # Six digits, which tables are read with, say nothing of what float64 is held to.
        Store("msprobe", msprobe, FLOATS[1:], shows=_by_statistics),
        Store("statistic table", statistic_table, FLOATS[1:], shows=_by_statistics),
        Store("debug log", debug_log, shows=_by_l1_norm, integers=False),
        Store("shards", sharded, FLOATS[:3], tables=SHARDS),
        Store("tokens", tokens, tables=TOKENS),
        Store("steps", steps, tables=STEPS),
    )
}
