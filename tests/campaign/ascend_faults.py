"""Faults of device dumps that the gate must find: what drivers, compilers, copies and rule files get wrong.

Each is put alone into a small compiled network. The same laws as in `faults.py`: exit code 1, the right tensor first,
no other blamed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from campaign.ascend_trials import CONV, DEVICE, MATRIX, PARTS, RELU, SUM, WEIGHT, A, AscendTrial, B, fractal_z
from campaign.faults import LFS_POINTER
from campaign.trials import Array, Change
from semantics import ascend_made as made

Injection = Callable[[AscendTrial], object]

FUSED, MATMUL, LAST = "conv1bn1relu1:output:0", "fc1:output:0", "split1:output:1"


class AscendFault(NamedTuple):
    """A fault and what must come of it; as `faults.Fault`."""

    what: str
    inject: Injection
    named: str
    says: str = ""
    too: frozenset[str] = frozenset()
    settings: Mapping[str, Any] = {}


def stored(name: str, change: Change, **more: Any) -> Injection:
    """Change the values as the device stored them, the padding with them."""
    return lambda trial: trial.put(name, np.asarray(change(DEVICE[name].stored.copy())), **more)


def described(name: str, **changes: Any) -> Injection:
    """Let a header say something else of the same bytes."""
    return lambda trial: trial.put(name, **changes)


def content(name: str, change: Callable[[bytes], bytes], side: str = "left") -> Injection:
    """Put other bytes into one file."""

    def inject(trial: AscendTrial) -> None:
        file = trial.file(name, side)
        file.write_bytes(change(file.read_bytes()))

    return inject


def removed(name: str, side: str = "left") -> Injection:
    return lambda trial: trial.file(name, side).unlink()


def reference(name: str, values: Array) -> Injection:
    """Let the original model say something else."""
    return lambda trial: np.save(trial.file(name, "right"), values)


def one_channel(change: Callable[[Array], Array]) -> Change:
    """Change channel 17, which NC1HWC0 has in its second block at place 1."""

    def inject(values: Array) -> Array:
        values[:, 1, :, :, 1] = change(values[:, 1, :, :, 1])
        return values

    return inject


def one_row(values: Array) -> Array:
    """Row 18 of FRACTAL_NZ: the second block of rows, place 2."""
    values[:, 1, 2, :] = 0
    return values


def one_weight(values: Array) -> Array:
    """Filter 40 at its last place: the third pack of groups, inside it the ninth."""
    values[2 * 6 + 5, 0, 8, 8] *= -1
    return values


def one_value_nan(values: Array) -> Array:
    values[1, 1, 4, 6, 2] = np.nan
    return values


def saturated(values: Array) -> Array:
    values[0, 0, 0, 0, 0] = 65504
    return values


def again_wrongly(trial: AscendTrial) -> None:
    """A second, wrong run into the same directory, whole, and later."""
    for name, right in DEVICE.items():
        values = -right.stored if name == "fc1" else right.stored
        trial.put(name, values, time=right.time + 100)
    first = trial.file("split1")
    first.with_name(first.name.replace(f"{made.TIME + 7}", f"{made.TIME + 107}")).write_bytes(first.read_bytes())


def slot_lost(trial: AscendTrial) -> None:
    trial.split(PARTS[0])


def other_dtype_of_the_same_values(trial: AscendTrial) -> None:
    """Converted to bfloat16 and back: 8 of 11 bits of each value are left."""
    bits = made.nc1hwc0(RELU).astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    trial.put("conv1bn1relu1", bits.view(np.float32))


STRICT, TORCH = {"profile": "strict"}, {"profile": "torch"}

ASCEND_FAULTS = (
    # Values, as the device stores them
    AscendFault("sign of one NC1HWC0 channel", stored("conv1bn1relu1", one_channel(np.negative)), FUSED),
    AscendFault("one NC1HWC0 channel zeroed", stored("a", one_channel(np.zeros_like)), "a:output:0"),
    AscendFault("one row of FRACTAL_NZ zeroed", stored("fc1", one_row), MATMUL),
    AscendFault("sign of one weight of FRACTAL_Z", stored("w", one_weight), "w:output:0", settings=TORCH),
    AscendFault("NaN at one place", stored("b", one_value_nan), "b:output:0", says="first at [1, 18, 4, 6]"),
    AscendFault("saturated at 65504", stored("a", saturated), "a:output:0", says="saturated"),
    AscendFault("scaled by 1.01", stored("fc1", lambda v: v * np.float16(1.01)), MATMUL, settings=STRICT),
    AscendFault("rounded to bfloat16", other_dtype_of_the_same_values, FUSED, settings=TORCH),
    AscendFault("activation forgotten", lambda t: t.put("conv1bn1relu1", made.nc1hwc0(CONV)), FUSED),
    AscendFault("added one input to itself", lambda t: t.put("sum", A + A), "sum:output:0"),
    # Memory formats
    AscendFault("blocks of channels swapped", stored("a", lambda v: v[:, ::-1]), "a:output:0"),
    AscendFault("channels off by one in their blocks", stored("a", lambda v: np.roll(v, 1, axis=-1)), "a:output:0"),
    AscendFault("zeros of the padding among the channels", stored("a", lambda v: np.roll(v, 3, axis=1)), "a:output:0"),
    AscendFault("height and width swapped", stored("a", lambda v: v.swapaxes(2, 3).reshape(v.shape)), "a:output:0"),
    AscendFault(
        "padded to 32 where the header says 16", lambda t: t.put("a", made.nc1hwc0(A, 32)[..., :16]), "a:output:0"
    ),
    AscendFault("header says NHWC of NC1HWC0", described("a", memory_format="NHWC"), "a:output:0"),
    AscendFault("header says ND of NC1HWC0", described("a", memory_format="ND"), "a:output:0"),
    AscendFault("header says NC1HWC0 of NCHW", described("sum", memory_format="NC1HWC0"), "sum:output:0"),
    AscendFault(
        "header says one channel too few",
        described("a", original=(2, 18, 5, 7)),
        "a:output:0",
        says="differ along axis 1 alone",
    ),
    AscendFault("header says more than is stored", described("a", original=(2, 33, 5, 7)), "a:output:0"),
    AscendFault("fractals transposed", stored("fc1", lambda v: v.swapaxes(2, 3)), MATMUL),
    AscendFault("fractals in another order", stored("fc1", lambda v: v.swapaxes(0, 1).reshape(v.shape)), MATMUL),
    AscendFault("matrix transposed", lambda t: t.put("fc1", made.fractal_nz(MATRIX.T), original=(33, 20)), MATMUL),
    AscendFault("header says no groups", described("w", groups=None), "w:output:0"),
    AscendFault("header says half of the groups", described("w", groups=24), "w:output:0"),
    AscendFault("groups in another order", stored("w", lambda v: v[::-1]), "w:output:0"),
    AscendFault("weights of another layer", lambda t: t.put("w", fractal_z(WEIGHT[::-1])), "w:output:0"),
    # Data types
    AscendFault("header says bfloat16 of float16", described("fc1", data_type=27), MATMUL),
    AscendFault("header says int16 of float16", described("fc1", data_type=5), MATMUL),
    AscendFault("header says float32 of float16", described("fc1", data_type=1), MATMUL),
    AscendFault("header says a type without numbers", described("fc1", data_type=13), MATMUL),
    AscendFault("header says a type that is none", described("fc1", data_type=99), MATMUL),
    # Slots
    AscendFault(
        "inputs swapped",
        lambda t: t.put("sum", slot_of_inputs=(B, A)),
        "sum:input:0",
        too=frozenset({"sum:input:1"}),
    ),
    AscendFault("one input twice", lambda t: t.put("sum", slot_of_inputs=(A, A)), "sum:input:1"),
    AscendFault(
        "outputs swapped", lambda t: t.split(*PARTS[::-1]), "split1:output:0", too=frozenset({"split1:output:1"})
    ),
    AscendFault("an output lost", slot_lost, LAST),
    # Files
    AscendFault("file cut by one byte", content("fc1", lambda b: b[:-1]), MATMUL),
    AscendFault("file cut in its header", content("fc1", lambda b: b[:40]), MATMUL),
    AscendFault("file of zero bytes", content("fc1", lambda _: b""), MATMUL, says="empty"),
    AscendFault("pointer of Git LFS", content("fc1", lambda _: LFS_POINTER), MATMUL, says="is not an Ascend dump"),
    AscendFault("garbage", content("fc1", lambda b: bytes(255 - x for x in b)), MATMUL),
    AscendFault("header longer than the file", content("fc1", lambda b: b"\xff\xff\xff\x7f" + b[4:]), MATMUL),
    AscendFault("a wrong run into the same directory", again_wrongly, MATMUL, says="re-run"),
    AscendFault("device's file missing", removed("fc1"), MATMUL),
    AscendFault("device's file missing that feeds an input", removed("a"), "a:output:0", says="did not dump"),
    # The other side
    AscendFault("reference's file missing", removed("relu1", "right"), FUSED, says="relu1"),
    AscendFault("reference cut", content("fc1", lambda b: b[:-2], "right"), MATMUL, says="cut off"),
    AscendFault("reference before the activation", reference("relu1", CONV), FUSED),
    AscendFault(
        "reference in NHWC",
        reference("relu1", np.ascontiguousarray(RELU.transpose(0, 2, 3, 1))),
        FUSED,
        says="transpose = [0, 3, 1, 2]",
    ),
    AscendFault("reference of another batch", reference("relu1", RELU[:1]), FUSED),
    AscendFault("reference off by one element", reference("fc1", np.roll(MATRIX, 1)), MATMUL),
    # Rule files
    AscendFault(
        "rules name another layer", lambda t: t.ruled("fc1", output_desc=_origin("sum")), MATMUL, says="1330 elements"
    ),
    AscendFault("rules name a layer that is not there", lambda t: t.ruled("fc1", output_desc=_origin("fc7")), MATMUL),
    AscendFault(
        "rules name a layer before", lambda t: t.ruled("conv1bn1relu1", output_desc=_origin("bn1")), FUSED, says="bn1"
    ),
    AscendFault(
        "rules swap what feeds",
        lambda t: t.ruled("sum", input=["b:0", "a:0"]),
        "sum:input:0",
        too=frozenset({"sum:input:1"}),
    ),
)


def _origin(name: str) -> list[dict[str, Any]]:
    return list(made.operator("x", "x", [name])["output_desc"])


# Not faults of the values: to be passed, by every road.
CONTROLS: Mapping[str, Injection] = {
    "nothing changed": lambda _: None,
    "another padding": lambda t: t.put("fc1", np.where(np.isnan(DEVICE["fc1"].stored), 65504, DEVICE["fc1"].stored)),
    "float32 of the same values": lambda t: t.put("a", made.nc1hwc0(A.astype(np.float32))),
    "another memory format": lambda t: t.put("a", A, memory_format="NCHW"),
    "five dimensions of the same sum": lambda t: t.put("sum", made.nc1hwc0(SUM), memory_format="NC1HWC0"),
    "no original shape, as in old dumps": described("a", original=None),
    "bytes that no header tells of": content("fc1", lambda b: b + b"\0\0"),
}
