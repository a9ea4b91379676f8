"""Kinds of variation that the gate must let pass: another copy, another writer, noise far below the limits."""

from __future__ import annotations

import io
import os
import struct
from random import Random

import numpy as np
from campaign import edits
from campaign.edits import Edit, only
from campaign.faults import Injection, Kind, both, content, values
from campaign.networks import Pair
from campaign.trials import Array, Side, Trial, npy


def nothing(*_: object) -> None:
    pass


def other_times(trial: Trial, _: Pair, side: Side, rng: Random, __: float) -> None:
    for path in trial.folder(side).rglob("*"):
        if path.is_file():
            data, time = path.read_bytes(), rng.randrange(10**9, 2 * 10**9)
            path.unlink()
            path.write_bytes(data)
            os.utime(path, (time, time))


def read_only(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    trial.write(pair, side, trial.data(pair, side))
    trial.path(pair, side).chmod(0o400)


def files_beside(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    for folder in (trial.folder(side), trial.path(pair, side).parent):
        (folder / "README.md").write_text("What this run was.\n", "utf-8")
        (folder / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
        (folder / "notes.txt").write_text("0.5 0.25\n", "utf-8")


def empty_folders(trial: Trial, _: Pair, side: Side, __: Random, ___: float) -> None:
    (trial.folder(side) / ".git" / "objects").mkdir(parents=True, exist_ok=True)


def moved_elsewhere(trial: Trial, _: Pair, side: Side, __: Random, ___: float) -> None:
    """A side is a link to a folder elsewhere."""
    there = trial.root / "another place, ünder 名"
    there.mkdir()
    trial.folder(side).rename(there / "dump")
    trial.folder(side).symlink_to(there / "dump")


def linked_file(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    path = trial.path(pair, side)
    data = trial.data(pair, side)
    trial.remove(path)
    elsewhere = trial.root / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / path.name).write_bytes(data)
    path.symlink_to(elsewhere / path.name)


def graphs_lost(trial: Trial, _: Pair, side: Side, __: Random, ___: float) -> None:
    found = [
        path
        for name in ("*.ir", "*.pb", "config.json", "data_dump.json")
        for path in trial.folder(side).rglob(name)
        if path.is_file()
    ]
    only(found)
    for path in found:
        path.unlink()


def other_line_ends(trial: Trial, _: Pair, side: Side, __: Random, ___: float) -> None:
    found = [path for path in trial.folder(side).rglob("*.csv") if "execution_order" in path.name]
    only(found)
    for path in found:
        text = path.read_bytes().replace(b"\n", b"\r\n")
        path.unlink()
        path.write_bytes(text)


def _rewritten(trial: Trial, pair: Pair, side: Side, version: tuple[int, int], array: Array) -> None:
    only(trial.path(pair, side).suffix == ".npy" and trial.span(pair, side).kind != "bfloat16")
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=version)
    trial.write(pair, side, stream.getvalue())


def npy_version_2(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    _rewritten(trial, pair, side, (2, 0), trial.values(pair, side))


def npy_version_3(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    _rewritten(trial, pair, side, (3, 0), trial.values(pair, side))


def fortran_order(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    array = trial.values(pair, side)
    only(array.ndim >= 2)
    _rewritten(trial, pair, side, (1, 0), np.asfortranarray(array))


def big_endian(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    array = trial.values(pair, side)
    only(array.dtype.itemsize > 1)
    _rewritten(trial, pair, side, (1, 0), array.astype(array.dtype.newbyteorder(">")))


def longer_header(data: bytes, _: Random) -> bytes:
    """More blanks before the values, as another writer pads."""
    only(data.startswith(b"\x93NUMPY\x01\0"))
    (length,) = struct.unpack_from("<H", data, 8)
    text = data[10 : 10 + length].rstrip() + b" " * 192
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    return data[:8] + struct.pack("<H", len(text)) + text + data[10 + length :]


def wider_type(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    """The same values as float64, and a name that says so."""
    array, fields = trial.values(pair, side), trial.path(pair, side).name.split(".")
    only(array.dtype == np.float32 and len(fields) == 10 and trial.options.get("profile") != "bitwise")
    only(array.size)
    trial.write(pair, side, npy(array.astype(np.float64)))
    fields[8] = "Float64"
    trial.renamed(pair, side, ".".join(fields), dtype="float64")


def wider_integers(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    """The same integers, wider."""
    array, fields = trial.values(pair, side), trial.path(pair, side).name.split(".")
    only(array.dtype == np.int32 or array.dtype == np.int64)
    only(len(fields) == 10 and trial.options.get("profile") != "bitwise")
    narrow = array.dtype == np.int64
    only(not narrow or (np.abs(array) < 2**31).all())
    trial.write(pair, side, npy(array.astype(np.int32 if narrow else np.int64)))
    fields[8] = "Int32" if narrow else "Int64"
    trial.renamed(pair, side, ".".join(fields), dtype=fields[8].lower())


def type_in_small_letters(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    fields = trial.path(pair, side).name.split(".")
    only(len(fields) == 10 and fields[8] != fields[8].lower())
    fields[8] = fields[8].lower()
    trial.renamed(pair, side, ".".join(fields))


def another_hour(trial: Trial, _: Pair, side: Side, rng: Random, __: float) -> None:
    """The same run an hour later: every time in the names moves by as much."""
    later = rng.randrange(1, 3600) * 1_000_000
    only(not list(trial.folder(side).rglob("mapping.csv")))
    for pair in list(trial.pairs):
        fields = trial.path(pair, side).name.split(".")
        only(len(fields) == 10)
    only(not trial.network.repeats)
    for pair in trial.pairs:
        fields = trial.path(pair, side).name.split(".")
        time = int(fields[4]) + later
        fields[4] = str(time)
        trial.renamed(pair, side, ".".join(fields), time=time)


def older_parameter(trial: Trial, pair: Pair, side: Side, rng: Random, _: float) -> None:
    """A parameter of an earlier, wrong run lies beside the newer one, which counts."""
    path = trial.path(pair, side)
    fields = path.name.split(".")
    only(len(fields) == 10 and fields[0] == "Parameter" and not trial.network.repeats)
    array = trial.values(pair, side)
    fields[4] = str(int(fields[4]) - 3_600_000_000)
    trial.write_file(path.with_name(".".join(fields)), npy(edits.all_zero(array, rng, 0)))


def further_reference(trial: Trial, pair: Pair, _: Side, __: Random, ___: float) -> None:
    """The reference holds a layer more, which nothing is asked of."""
    only(trial.by == "map")
    path = trial.path(pair, "right")
    fields = path.name.split(".")
    only(len(fields) == 4 and path.suffix == ".npy")
    trial.settings.pop("min_coverage", None)
    fields[0] = "another_layer"
    trial.write_file(path.with_name(".".join(fields)), trial.data(pair, "right"))


def entries_in_another_order(trial: Trial, _: Pair, __: Side, rng: Random, ___: float) -> None:
    only(trial.by == "map")
    rng.shuffle(trial.entries())


def more_workers(trial: Trial, *_: object) -> None:
    trial.settings["jobs"] = 2


def one_item_per_tensor(trial: Trial, *_: object) -> None:
    trial.settings["granularity"] = "tensor"


def denormal_beside_zero(trial: Trial, pair: Pair, side: Side, rng: Random, size: float) -> None:
    only(trial.options.get("profile") != "bitwise" and trial.values(pair, side).dtype == np.float32)
    both(edits.put(0.0), edits.put(2.0**-149))(trial, pair, side, rng, size)


def nan_payload(trial: Trial, pair: Pair, side: Side, rng: Random, size: float) -> None:
    """NaN at the same place of both sides, of other bits."""
    only(trial.options.get("profile") != "bitwise" and trial.values(pair, side).dtype == np.float32)
    payload = float(np.array(0x7FC12345, np.uint32).view(np.float32))
    both(edits.put(np.nan), edits.put(payload))(trial, pair, side, rng, size)


def minus_zero(trial: Trial, pair: Pair, side: Side, rng: Random, size: float) -> None:
    only(trial.options.get("profile") != "bitwise")
    values(edits.zeros_to_minus_zeros)(trial, pair, side, rng, size)


def small(edit: Edit) -> Injection:
    """Change values by a billionth."""
    return lambda trial, pair, side, rng, _: values(edit)(trial, pair, side, rng, 1e-9)


def both_scaled(array: Array, _: Random, __: float) -> Array:
    edits.only_floats(array)
    only(array.dtype != np.float16)
    return array * array.dtype.type(0.5)


HARMLESS = (
    Kind("nothing changed", nothing),
    Kind("files written at other times", other_times),
    Kind("a file that cannot be written", read_only),
    Kind("other files beside", files_beside),
    Kind("hidden folders beside", empty_folders),
    Kind("a side behind a link", moved_elsewhere),
    Kind("a file behind a link", linked_file),
    Kind("graphs and metadata lost", graphs_lost),
    Kind("execution order with other line ends", other_line_ends),
    Kind("npy of version 2", npy_version_2),
    Kind("npy of version 3", npy_version_3),
    Kind("Fortran order", fortran_order),
    Kind("big-endian values", big_endian),
    Kind("npy with a longer header", content(longer_header, ".npy")),
    Kind("wider type of the same values", wider_type),
    Kind("other width of the same integers", wider_integers),
    Kind("type in small letters", type_in_small_letters),
    Kind("the run an hour later", another_hour),
    Kind("an older parameter beside", older_parameter),
    Kind("a reference layer more", further_reference),
    Kind("map in another order", entries_in_another_order),
    Kind("two workers", more_workers),
    Kind("an item for each tensor", one_item_per_tensor),
    Kind("smallest number beside a zero", denormal_beside_zero),
    Kind("NaN of other bits in the same place", nan_payload),
    Kind("Inf in the same place", both(edits.put(np.inf), edits.put(np.inf))),
    Kind("minus zero for zero, not by bits", minus_zero),
    Kind("both sides halved", both(both_scaled, both_scaled)),
    Kind("noise below the limits", small(edits.noisy)),
    Kind("scaled below the limits", small(edits.scaled)),
)
