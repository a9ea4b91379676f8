"""Faults of whole runs, of names and of the map, rather than of one tensor's values or file."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from random import Random

from campaign import edits
from campaign.edits import only
from campaign.networks import Pair
from campaign.trials import Side, Trial, npy


def another(trial: Trial, pair: Pair, side: Side, rng: Random) -> Pair:
    """Another tensor of the same side in another file."""
    mine = trial.tensor(pair, side).file
    others = [one for one in trial.pairs if trial.file_of(one, side) not in (None, mine)]
    only(others)
    return rng.choice(others)


# -- names -------------------------------------------------------------------------------------------------------------


def _named(trial: Trial, pair: Pair, side: Side) -> list[str]:
    """The fields of the name of a file with a tensor of its own, as MindSpore writes it."""
    fields = trial.path(pair, side).name.split(".")
    only(len(fields) == 10 and fields[-1] == "npy")
    return fields


def _rename(trial: Trial, pair: Pair, side: Side, fields: list[str]) -> None:
    path = trial.path(pair, side)
    only(not path.with_name(".".join(fields)).exists())
    path.rename(path.with_name(".".join(fields)))
    trial.gone(path)


def operator_renamed(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    fields = _named(trial, pair, side)
    fields[1] = "Default_quite_another-Name_op77"
    _rename(trial, pair, side, fields)


def slot_renamed(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    fields = _named(trial, pair, side)
    fields[6] = "17"
    _rename(trial, pair, side, fields)


def io_renamed(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    fields = _named(trial, pair, side)
    only(fields[0] != "Parameter")
    there = trial.tensor(pair, side)
    only(not any(one.left and one.left.op == there.op and one.left.io != there.io for one in trial.pairs))
    fields[5] = "input" if fields[5] == "output" else "output"
    _rename(trial, pair, side, fields)


def dtype_renamed(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    fields = _named(trial, pair, side)
    fields[8] = "Int32" if fields[8] != "Int32" else "Float32"
    only(trial.values(pair, side).size)
    trial.renamed(pair, side, ".".join(fields), dtype=fields[8].lower())


def name_cut(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    fields = _named(trial, pair, side)
    _rename(trial, pair, side, [*fields[:4], "npy"])


# -- runs --------------------------------------------------------------------------------------------------------------


def _again(trial: Trial, pair: Pair, side: Side, later: int) -> tuple[list[str], int]:
    fields = _named(trial, pair, side)
    return fields, int(fields[4]) + later


def newer_and_wrong(trial: Trial, pair: Pair, _: Side, __: Random, ___: float) -> None:
    """A newer file of a parameter replaces the older one."""
    fields, time = _again(trial, pair, "left", 60_000_000)
    only(fields[0] == "Parameter" and trial.network.repeats != "occurrences")
    path = trial.path(pair, "left")
    changed = edits.scaled(trial.values(pair, "left"), Random(0), 2.0)
    fields[4] = str(time)
    again = path.with_name(".".join(fields))
    trial.write_file(again, npy(changed))
    one = trial.tensor(pair, "left")
    pair.left = one._replace(file=again.relative_to(trial.left).as_posix(), time=time)


def stray_run(trial: Trial, pair: Pair, side: Side, rng: Random, size: float) -> None:
    """One tensor of a second run, and a fault in another one, which is compared all the same."""
    _named(trial, pair, side)
    parameters = [one for one in trial.pairs if one.left and one.left.op_type == "Parameter" and one is not pair]
    only(parameters and trial.network.repeats != "occurrences")
    stray = rng.choice(parameters)
    fields, time = _again(trial, stray, side, 60_000_000)
    data, path = trial.data(stray, side), trial.path(stray, side)
    trial.put(pair, "left", edits.negated(trial.values(pair, "left"), rng, size))
    fields[4] = str(time)
    again = path.with_name(".".join(fields))
    trial.write_file(again, data)
    now = trial.tensor(stray, side)._replace(file=again.relative_to(trial.folder(side)).as_posix(), time=time)
    if side == "left":
        stray.left = now
    else:
        stray.right = now


def run_again_wrongly(trial: Trial, pair: Pair, _: Side, rng: Random, __: float) -> None:
    """The whole run once more into the same folders, later, with one tensor wrong."""
    only(not trial.network.repeats)
    edits.only_floats(trial.values(pair, "left"))
    files = [path for path in trial.left.rglob("*") if path.is_file() and path.suffix in ("", ".npy")]
    only(all(len(path.name.split(".")) == 10 for path in files))
    only(any(path.name.startswith("Parameter.") for path in files))
    for path in files:
        trial.write_file(_an_hour_later(path), path.read_bytes())
    for one in trial.pairs:
        if one.left is not None:
            later = _an_hour_later(trial.left / one.left.file)
            file = later.relative_to(trial.left).as_posix()
            one.left = one.left._replace(file=file, time=int(later.name.split(".")[4]))
    trial.put(pair, "left", edits.scaled(trial.values(pair, "left"), rng, 1.0))


def _an_hour_later(path: Path) -> Path:
    fields = path.name.split(".")
    fields[4] = str(int(fields[4]) + 3_600_000_000)
    return path.with_name(".".join(fields))


def further_occurrence(trial: Trial, pair: Pair, _: Side, rng: Random, __: float) -> None:
    """A second, drifted file of a tensor in the middle of its iteration meets nothing: some profiles fail it."""
    fields, time = _again(trial, pair, "left", 1)
    only(fields[0] != "Parameter" and fields[5] == "output" and not trial.network.repeats)
    here = trial.tensor(pair, "left").folder
    times = [one.left.time for one in trial.pairs if one.left is not None and one.left.folder == here]
    only(time not in times and any(one > time for one in times))
    changed = edits.scaled(trial.values(pair, "left"), rng, 1.0)
    fields[4] = str(time)
    trial.write_file(trial.path(pair, "left").with_name(".".join(fields)), npy(changed))
    trial.blamed |= {trial.tensor(pair, "left").file, f"{here}/{'.'.join(fields)}"}
    trial.expects = "fail" if trial.options.get("profile") in ("strict", "bitwise") else "free"


def _iterations(trial: Trial, pair: Pair, side: Side) -> tuple[str, list[str]]:
    here = trial.tensor(pair, side).folder
    parent, _, name = here.rpartition("/")
    only(name.isdigit() and parent)
    found = {one.folder for one in (p.left if side == "left" else p.right for p in trial.pairs) if one is not None}
    others = sorted(one for one in found if one.rpartition("/")[0] == parent and one != here)
    only(others)
    return here, others


def stale_iteration(trial: Trial, pair: Pair, side: Side, rng: Random, _: float) -> None:
    """An iteration holds the values of another one."""
    here, others = _iterations(trial, pair, side)
    source = rng.choice(others)
    theirs = {}
    for one in trial.pairs:
        there = one.left if side == "left" else one.right
        if there is not None and there.folder == source:
            theirs[(there.op_type, there.address)] = trial.data(one, side)
    for one in trial.pairs:
        there = one.left if side == "left" else one.right
        if there is not None and there.folder == here and (there.op_type, there.address) in theirs:
            trial.write(one, side, theirs[(there.op_type, there.address)])


def iteration_missing(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    here, _others = _iterations(trial, pair, side)
    shutil.rmtree(trial.folder(side) / here)
    for one in trial.pairs:
        there = one.left if side == "left" else one.right
        if there is not None and there.folder == here:
            trial.gone(trial.folder(side) / there.file)


def empty_dump(trial: Trial, _: Pair, side: Side, __: Random, ___: float) -> None:
    shutil.rmtree(trial.folder(side))
    trial.folder(side).mkdir()
    trial.pairs.clear()
    trial.expects = "fail"


def dump_missing(trial: Trial, _: Pair, side: Side, __: Random, ___: float) -> None:
    shutil.rmtree(trial.folder(side))
    trial.pairs.clear()
    trial.expects = "fail"


def recording_broken_off(trial: Trial, _: Pair, side: Side, __: Random, ___: float) -> None:
    """A manifest that says that its recording was not finished."""
    only(trial.network.name in ("lenet port", "lenet reference", "example 01", "edge values"))
    if trial.network.name in ("lenet port", "example 01"):
        side = "right"
    listed = ", ".join(
        f'"{one.file}": {{"op": "{one.op}"}}'
        for one in (p.left if side == "left" else p.right for p in trial.pairs)
        if one is not None
    )
    trial.write_file(
        trial.folder(side) / "msdump.json",
        f'{{"schema_version": 1, "framework": "torch", "complete": false, "tensors": {{{listed}}}}}'.encode(),
    )
    trial.expects = "fail"
    trial.pairs.clear()


def names_lost(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    """The table of long names is gone: which tensors the numbered files are is not known."""
    table = trial.path(pair, side).parent / "mapping.csv"
    only(table.is_file())
    trial.remove(table)
    for one in list(trial.pairs):
        there = one.left if side == "left" else one.right
        if there is None:
            continue
        path = trial.folder(side) / there.file
        if path.parent == table.parent and re.fullmatch(r"\d+(\.npy)?", path.name):
            trial.gone(path)


# -- the map -----------------------------------------------------------------------------------------------------------


def _entry(trial: Trial, pair: Pair) -> dict[str, object]:
    only(trial.by == "map" and pair.left is not None)
    assert pair.left is not None
    folders = {one.left.folder for one in trial.pairs if one.left is not None}
    only(len(folders) == 1)
    found = [one for one in trial.entries() if str(one["left"]).endswith(pair.left.address)]
    only(len(found) == 1)
    return found[0]


def map_names_another(trial: Trial, pair: Pair, _: Side, rng: Random, __: float) -> None:
    """Two entries of the map name each other's right tensor."""
    other = another(trial, pair, "right", rng)
    one, two = _entry(trial, pair), _entry(trial, other)
    one["right"], two["right"] = two["right"], one["right"]
    pair.right, other.right = other.right, pair.right
    trial.changed |= {trial.path(pair, "right"), trial.path(other, "right")}


def map_names_nothing(trial: Trial, pair: Pair, side: Side, _: Random, __: float) -> None:
    """An entry of the map names a tensor that was not dumped."""
    entry = _entry(trial, pair)
    entry[side] = "no_such_layer:output:0"
    pair.left, pair.right = None, None
    trial.expects = "fail"
