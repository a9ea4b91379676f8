"""Kinds of faults that the gate must find, each of which can be put into any tensor of any dump."""

from __future__ import annotations

import os
import pickle
import re
import struct
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import numpy as np
from campaign import edits, run_faults
from campaign.edits import Edit, only
from campaign.networks import Pair
from campaign.trials import NotHereError, Side, Trial

Injection = Callable[[Trial, Pair, Side, Random, float], None]

LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d7a2146" * 8 + b"\nsize 9728\n"


class Kind(NamedTuple):
    """A kind of fault; `sizes` are the bounds of its size, drawn evenly by powers of ten, where it has one."""

    what: str
    inject: Injection
    sizes: tuple[float, float] | None = None


def values(edit: Edit) -> Injection:
    """Change one tensor's values."""

    def inject(trial: Trial, pair: Pair, side: Side, rng: Random, size: float) -> None:
        trial.put(pair, side, edit(trial.values(pair, side), rng, size))

    return inject


def both(left: Edit, right: Edit) -> Injection:
    """Change the values of a pair, at the same place when chance decides about it."""

    def inject(trial: Trial, pair: Pair, _: Side, rng: Random, size: float) -> None:
        seed = rng.randrange(2**32)
        one, other = trial.values(pair, "left"), trial.values(pair, "right")
        only(one.shape == other.shape)
        one, other = left(one, Random(seed), size), right(other, Random(seed), size)
        trial.put(pair, "left", one)
        trial.put(pair, "right", other)

    return inject


def content(change: Callable[[bytes, Random], bytes], suffix: str = "") -> Injection:
    """Change one file's bytes."""

    def inject(trial: Trial, pair: Pair, side: Side, rng: Random, _: float) -> None:
        only(trial.path(pair, side).name.endswith(suffix))
        trial.write(pair, side, change(trial.data(pair, side), rng))

    return inject


def file(put: Callable[[Trial, Pair, Side], None], *, may_fail: bool = True) -> Injection:
    """Put something else in a file's place: the tensor is gone, or cannot be read."""

    def inject(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
        path = trial.path(pair, side)
        one = trial.tensor(pair, "left").file
        trial.remove(path)
        put(trial, pair, side)
        trial.gone(path)
        if may_fail:
            trial.blamed.add(one)

    return inject


# -- values of both sides ----------------------------------------------------------------------------------------------


def two_places(one: float, other: float) -> Injection:
    """Put numbers into both sides, in neighbouring places."""

    def inject(trial: Trial, pair: Pair, _: Side, rng: Random, __: float) -> None:
        left, right = trial.values(pair, "left"), trial.values(pair, "right")
        edits.only_floats(left, 2)
        edits.only_floats(right, 2)
        only(left.size == right.size)
        at = rng.randrange(left.size - 1)
        left.flat[at], right.flat[at + 1] = one, other
        trial.put(pair, "left", left)
        trial.put(pair, "right", right)

    return inject


def forbidden_nan(trial: Trial, pair: Pair, side: Side, rng: Random, size: float) -> None:
    only(trial.options.get("profile", "default") != "bitwise")
    both(edits.put(np.nan), edits.put(np.nan))(trial, pair, side, rng, size)
    trial.settings["nan"] = "forbid"


def beyond_2_to_53(trial: Trial, pair: Pair, side: Side, rng: Random, size: float) -> None:
    only(trial.values(pair, side).dtype == np.int64)
    both(_all(2**53 + 1), _all(2**53))(trial, pair, side, rng, size)


def _all(value: int) -> Edit:
    return lambda array, _, __: np.full_like(array, value)


def denormal_flushed(trial: Trial, pair: Pair, side: Side, rng: Random, size: float) -> None:
    only(trial.values(pair, side).dtype == np.float32)
    both(edits.put(0.0), edits.put(1e-40))(trial, pair, side, rng, size)


def saturated_half(trial: Trial, pair: Pair, side: Side, rng: Random, size: float) -> None:
    only(trial.values(pair, "left").dtype == trial.values(pair, "right").dtype == np.float16)
    both(edits.put(65504), edits.put(65472))(trial, pair, side, rng, size)


def contents_swapped(trial: Trial, pair: Pair, side: Side, rng: Random, _: float) -> None:
    other = run_faults.another(trial, pair, side, rng)
    mine, theirs = trial.data(pair, side), trial.data(other, side)
    trial.write(pair, side, theirs)
    trial.write(other, side, mine)


def content_of_another(trial: Trial, pair: Pair, side: Side, rng: Random, _: float) -> None:
    trial.write(pair, side, trial.data(run_faults.another(trial, pair, side, rng), side))


def slots_swapped(trial: Trial, pair: Pair, side: Side, rng: Random, _: float) -> None:
    one = trial.tensor(pair, side)
    same = []
    for other in trial.pairs:
        there = other.left if side == "left" else other.right
        here = (one.folder, one.op_type, one.op, one.io)
        if there is not None and there.file != one.file and here == (there.folder, there.op_type, there.op, there.io):
            same.append(other)
    only(same)
    other = rng.choice(same)
    mine, theirs = trial.data(pair, side), trial.data(other, side)
    trial.write(pair, side, theirs)
    trial.write(other, side, mine)


# -- headers -----------------------------------------------------------------------------------------------------------


def header_says(old: str, new: bytes) -> Injection:
    """Let an npy header say something else in as many bytes, or fewer."""

    def change(data: bytes, _: Random) -> bytes:
        end = data.find(b"\n") + 1
        found = re.search(old.encode(), data[:end])
        if found is None or found[0] == new:
            raise NotHereError
        header = data[: found.start()] + new + data[found.end() : end - 1]
        only(len(header) < end or not header[end - 1 :].strip())
        return header[: end - 1].ljust(end - 1) + b"\n" + data[end:]

    return content(change, ".npy")


def _shape(change: Callable[[list[int], Random], list[int]]) -> Injection:
    """Let an npy header say another shape."""

    def inject(data: bytes, rng: Random) -> bytes:
        end = data.find(b"\n") + 1
        found = re.search(rb"'shape': \(([\d, ]*)\)", data[:end])
        only(found)
        assert found is not None
        dims = [int(one) for one in found[1].replace(b",", b" ").split()]
        text = f"'shape': ({''.join(f'{one}, ' for one in change(dims, rng))})".encode()
        header = (data[: found.start()] + text + data[found.end() : end - 1]).rstrip()
        only(len(header) < end)
        return header.ljust(end - 1) + b"\n" + data[end:]

    return content(inject, ".npy")


def _smaller(dims: list[int], _: Random) -> list[int]:
    only(dims and dims[0] > 1)
    return [dims[0] - 1, *dims[1:]]


def _larger(dims: list[int], _: Random) -> list[int]:
    only(dims and all(dims))
    return [dims[0] + 1, *dims[1:]]


def _enormous(dims: list[int], _: Random) -> list[int]:
    only(dims)
    return [2**40, *dims[1:]]


def _exchanged(dims: list[int], _: Random) -> list[int]:
    only(dims != dims[::-1])
    return dims[::-1]


def huge_header(data: bytes, _: Random) -> bytes:
    if data.startswith(b"\x93NUMPY"):
        return data[:8] + b"\xff\xff" + data[10:]
    return b"\xff\xff\xff\x7f" + data[4:]


def header_bit(trial: Trial, pair: Pair, side: Side, rng: Random, _: float) -> None:
    start = trial.span(pair, side).start
    only(start)
    data = bytearray(trial.data(pair, side))
    data[rng.randrange(start)] ^= 1 << rng.randrange(8)
    trial.write(pair, side, bytes(data))
    trial.expects = "free"


def cut_in_header(trial: Trial, pair: Pair, side: Side, rng: Random, _: float) -> None:
    start = trial.span(pair, side).start
    only(start > 1)
    trial.write(pair, side, trial.data(pair, side)[: rng.randrange(1, start)])


def cut_anywhere(data: bytes, rng: Random) -> bytes:
    only(data)
    return data[: rng.randrange(len(data))]


def extended(data: bytes, rng: Random) -> bytes:
    return data + bytes(rng.randrange(256) for _ in range(rng.choice([1, 2, 7, 64])))


# -- in a file's place -------------------------------------------------------------------------------------------------


def link_to_itself(trial: Trial, pair: Pair, side: Side) -> None:
    path = trial.path(pair, side)
    path.symlink_to(path.name)


def link_to_nothing(trial: Trial, pair: Pair, side: Side) -> None:
    trial.path(pair, side).symlink_to("nothing.npy")


def folder(trial: Trial, pair: Pair, side: Side) -> None:
    trial.path(pair, side).mkdir()


def fifo(trial: Trial, pair: Pair, side: Side) -> None:
    os.mkfifo(trial.path(pair, side))


def link_to_a_device(trial: Trial, pair: Pair, side: Side) -> None:
    trial.path(pair, side).symlink_to("/dev/zero")


V = values
KINDS = (
    # All values of a tensor
    Kind("scaled", V(edits.scaled), (1e-8, 10)),
    Kind("shifted", V(edits.shifted), (1e-8, 10)),
    Kind("noise", V(edits.noisy), (1e-8, 10)),
    Kind("negated", V(edits.negated)),
    Kind("all zeros", V(edits.all_zero)),
    Kind("one value everywhere", V(edits.constant)),
    Kind("values of a generator", V(edits.at_random)),
    Kind("rounded to float16", V(edits.as_float16)),
    Kind("rounded to bfloat16", V(edits.as_bfloat16)),
    Kind("rounded to steps", V(edits.quantised), (1e-8, 10)),
    Kind("clipped", V(edits.clipped), (1e-6, 0.9)),
    Kind("negatives lost", V(edits.without_negatives)),
    Kind("signs lost", V(edits.absolute)),
    Kind("minus zero for zero", V(edits.zeros_to_minus_zeros)),
    # Single elements
    Kind("one element off", V(edits.one_off), (1e-6, 100)),
    Kind("largest element off", V(edits.largest_off), (1e-6, 10)),
    Kind("one element shifted", V(edits.typical_plus), (1e-6, 100)),
    Kind("sign bit of the largest element", V(edits.flipped(0, edits.largest))),
    Kind("exponent bit of one element", V(edits.flipped(1, edits.typical))),
    Kind("high mantissa bit of the largest element", V(edits.flipped(9, edits.largest))),
    Kind("lowest mantissa bit of the largest element", V(edits.flipped(-1, edits.largest))),
    Kind("a bit of the values", V(edits.any_bit)),
    Kind("NaN", V(edits.put(np.nan))),
    Kind("Inf", V(edits.put(np.inf))),
    Kind("-Inf for Inf", both(edits.put(-np.inf), edits.put(np.inf))),
    Kind("NaN in another place", two_places(np.nan, np.nan)),
    Kind("NaN that is forbidden", forbidden_nan),
    Kind("largest number of the type", V(edits.saturated)),
    Kind("saturated float16", saturated_half),
    Kind("denormal flushed", denormal_flushed),
    Kind("integer off by one", V(edits.integer_off)),
    Kind("integer off by one beyond 2^53", beyond_2_to_53),
    Kind("bool flipped", V(edits.bool_flipped)),
    Kind("imaginary part wrong", V(edits.one_complex_part)),
    # Parts
    Kind("one channel zero", V(edits.one_channel_zero)),
    Kind("one channel scaled", V(edits.one_channel_scaled), (1e-6, 10)),
    Kind("two channels swapped", V(edits.channels_swapped)),
    Kind("one sample repeated", V(edits.first_part_copied)),
    Kind("last part zero", V(edits.last_part_zero), (1e-3, 1)),
    Kind("last column zero", V(edits.padding_wrong)),
    # Order
    Kind("elements off by one", V(edits.rolled)),
    Kind("batch in another order", V(edits.reversed_first)),
    Kind("elements in any order", V(edits.permuted)),
    Kind("elements sorted", V(edits.sorted_values)),
    Kind("two axes of one length swapped", V(edits.equal_axes_swapped)),
    Kind("NHWC written as NCHW", V(edits.channels_last_in_place)),
    Kind("bytes of the other order", V(edits.bytes_swapped)),
    # Shapes and types
    Kind("transposed", V(edits.transposed)),
    Kind("a row more", V(edits.row_more)),
    Kind("a row less", V(edits.row_less)),
    Kind("no elements", V(edits.nothing_left)),
    Kind("float64 under the old name", V(edits.as_float64)),
    Kind("integers for floats", V(edits.as_integers)),
    Kind("complex for real", V(edits.as_complex)),
    # Headers
    Kind("header says Fortran order", header_says("False", b"True")),
    Kind("header says the other byte order", header_says("'<(?=[fi][48])", b"'>")),
    Kind("header says integers", header_says("<f4", b"<i4")),
    Kind("header says a smaller shape", _shape(_smaller)),
    Kind("header says a larger shape", _shape(_larger)),
    Kind("header says an enormous shape", _shape(_enormous)),
    Kind("header says the axes exchanged", _shape(_exchanged)),
    Kind("header longer than the file", content(huge_header)),
    Kind("a bit of the header", header_bit),
    # Files
    Kind("file missing", file(lambda *_: None, may_fail=False)),
    Kind("file cut in its header", cut_in_header),
    Kind("file cut anywhere", content(cut_anywhere)),
    Kind("file cut by one byte", content(lambda data, _: data[:-1])),
    Kind("bytes behind the values", content(extended)),
    Kind("file twice in one", content(lambda data, _: data + data)),
    Kind("file of zero bytes", content(lambda *_: b"")),
    Kind("pointer of Git LFS", content(lambda *_: LFS_POINTER)),
    Kind("garbage", content(lambda data, _: bytes(255 - one for one in data))),
    Kind("pickle", content(lambda *_: pickle.dumps([1.0]), ".npy")),
    Kind("objects", V(edits.as_objects)),
    Kind("text", content(lambda *_: b"0.5,0.25\n" * 9)),
    Kind("compressed", content(lambda data, _: b"\x1f\x8b\x08\0" + struct.pack("<I", 0) + data)),
    Kind("link to itself", file(link_to_itself)),
    Kind("link to nothing", file(link_to_nothing)),
    Kind("link to a device", file(link_to_a_device)),
    Kind("folder in the file's place", file(folder)),
    Kind("pipe in the file's place", file(fifo)),
    Kind("contents of two files swapped", contents_swapped),
    Kind("content of another tensor", content_of_another),
    Kind("slots swapped", slots_swapped),
    # Names
    Kind("operator renamed", run_faults.operator_renamed),
    Kind("other slot in the name", run_faults.slot_renamed),
    Kind("input for output in the name", run_faults.io_renamed),
    Kind("wrong type in the name", run_faults.dtype_renamed),
    Kind("name cut", run_faults.name_cut),
    Kind("table of long names lost", run_faults.names_lost),
    # Runs
    Kind("newer and wrong parameter", run_faults.newer_and_wrong),
    Kind("stray file of a second run", run_faults.stray_run),
    Kind("a wrong run into the same directory", run_faults.run_again_wrongly),
    Kind("a further occurrence", run_faults.further_occurrence),
    Kind("stale iteration", run_faults.stale_iteration),
    Kind("iteration missing", run_faults.iteration_missing),
    Kind("empty dump", run_faults.empty_dump),
    Kind("dump missing", run_faults.dump_missing),
    Kind("recording broken off", run_faults.recording_broken_off),
    # The map
    Kind("map names another tensor", run_faults.map_names_another),
    Kind("map names nothing", run_faults.map_names_nothing),
)
BY_NAME = {kind.what: kind for kind in KINDS}
