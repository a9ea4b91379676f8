"""Evidence added to comparisons that fail, true and not: digests, statistics, sketches. None of it may clear one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from campaign import law_sides
from campaign.law_forms import Apply, Form, nothing, put, torn
from campaign.law_sides import STORES, Comparison, Row
from campaign.trials import NotHereError

TABLES = ("msprobe", "statistic table", "debug log")
DIGESTS = (*TABLES, "sketch")


# -- digests -----------------------------------------------------------------------------------------------------------


def claimed(digest: Callable[[Comparison, str, str, Mapping[str, Row]], Any]) -> Apply:
    """Say of each tensor a digest, made of the side, the name, and the true digests of both sides."""

    def apply(case: Comparison) -> None:
        kind = {"msprobe": str(case.rng.choice(["crc32", "xor"])), "debug log": "xor_wide"}.get(case.store.name, "md5")

        def value(side: str, name: str) -> Any:
            both = {"left": case.tested[name], "right": case.reference[name]}
            true = {key: law_sides.statistics_of(values)[kind] for key, values in both.items()}
            return digest(case, side, name, true)

        def change(side: str, name: str, row: Row) -> None:
            row["digest"] = value(side, name)
            row["sha1"] = str(row["digest"])

        def edit(side: str, name: str, entry: Row) -> None:
            key = "blake2b" if "blake2b" in entry["statistics"] else "xxh3_128"
            entry["statistics"][key] = str(value(side, name))[:32]

        if case.store.name == "sketch":
            manifests(case, edit)
        else:
            case.rows.append(change)

    return apply


def numbers_gone(case: Comparison) -> None:
    """Equal digests, and numbers of the left that are NaN."""
    claimed(lambda _, __, ___, true: true["right"])(case)
    case.rows.append(lambda side, _, row: row.update(_numbers(row, np.nan)) if side == "left" else None)


def said_twice(case: Comparison) -> None:
    """The digest of the right side once more behind the left's own."""
    claimed(lambda _, side, __, true: true[side])(case)
    if case.store.name not in ("msprobe", "sketch"):
        raise NotHereError

    def twice() -> None:
        key = "md5" if case.store.name == "msprobe" else "blake2b"
        files = {side: next(case.folder(side).rglob("*.json")) for side in law_sides.SIDES}
        files = {side: next(_manifests(case.folder(side))) for side in files}
        texts = {side: file.read_text("utf-8") for side, file in files.items()}
        theirs = _values_of(texts["right"], key)
        for own, other in zip(_values_of(texts["left"], key), theirs, strict=True):
            texts["left"] = texts["left"].replace(f'"{key}": "{own}"', f'"{key}": "{own}", "{key}": "{other}"')
        files["left"].write_text(texts["left"], "utf-8")

    case.after.append(twice)


def _manifests(folder: Path) -> Any:
    return (path for path in sorted(folder.rglob("*.json")) if path.name in ("dump.json", "msdump.json", "rank_0.json"))


def _values_of(text: str, key: str) -> list[str]:
    found = [part.partition('"')[0] for part in text.split(f'"{key}": "')[1:]]
    if not found:
        raise NotHereError
    return found


def table_beside(case: Comparison) -> None:
    """Beside whole tensors lies the table of a sound run, of both sides."""

    def beside() -> None:
        other = Comparison(**{**case.__dict__, "tested": case.reference, "rows": [], "after": []})
        other.rows.append(lambda _, __, row: row.update(digest=row["md5"]))
        for side in law_sides.SIDES:
            law_sides.statistic_table(other, side)

    case.after.append(beside)


# -- saved numbers -----------------------------------------------------------------------------------------------------

_NUMBERS = ("maximum", "minimum", "mean", "l2_norm", "l1_norm")


def _numbers(row: Row, value: Any) -> Row:
    # A maximum and a minimum of +Inf would say that all is +Inf.
    return {key: -value if key == "minimum" and value == np.inf else value for key in _NUMBERS if key in row}


def rows(change: Callable[[Row], object], *, sides: Sequence[str] = law_sides.SIDES) -> Apply:
    """Change what is saved of the failing tensor."""

    def apply(case: Comparison) -> None:
        def edit(side: str, name: str, row: Row) -> None:
            if name == case.wrong and side in sides:
                change(row)

        case.rows.append(edit)

    return apply


def still_wrong(apply: Apply) -> Apply:
    """Only what fails by the limits of bfloat16, too."""

    def checked(case: Comparison) -> None:
        sides = (side[case.wrong] for side in (case.tested, case.reference))
        if case.wrong == "ids" or case.store.shows(*(values._replace(dtype="bfloat16") for values in sides)) < 2.5:
            raise NotHereError
        apply(case)

    return checked


def _only(*keys: str) -> Callable[[Row], None]:
    def change(row: Row) -> None:
        for key in _NUMBERS:
            if key not in keys and key != "l1_norm":
                row[key] = None

    return change


def tensor_said_twice(case: Comparison) -> None:
    """The left's ``dump.json`` has the failing tensor once more, with the right's numbers."""

    def twice() -> None:
        files = [next(_manifests(case.folder(side))) for side in law_sides.SIDES]
        left, right = (json.loads(file.read_text("utf-8"))["data"] for file in files)
        key = next(name for name in left if f".{case.wrong}." in name)
        text = files[0].read_text("utf-8")
        files[0].write_text(text[: text.rindex("}}")] + "}, " + json.dumps({key: right[key]})[1:] + "}", "utf-8")

    case.after.append(twice)


def row_said_twice(case: Comparison) -> None:
    """The left's table has the failing tensor once more, with the right's numbers."""

    def twice() -> None:
        files = [next(case.folder(side).rglob("statistic.csv")) for side in law_sides.SIDES]
        row = next(line for line in files[1].read_text("utf-8").splitlines() if f",{case.wrong}," in line)
        files[0].write_text(files[0].read_text("utf-8") + row + "\n", "utf-8")

    case.after.append(twice)


# -- sketches ----------------------------------------------------------------------------------------------------------


def manifests(case: Comparison, edit: Callable[[str, str, Row], None]) -> None:
    """Edit what the manifests say of the failing tensor."""

    def change() -> None:
        for side in law_sides.SIDES:
            file = case.folder(side) / "msdump.json"
            values = json.loads(file.read_text("utf-8"))
            entries = [entry for entry in values["tensors"].values() if entry["op"] == case.wrong]
            if not all("norm" in entry for entry in entries):
                raise NotHereError
            for entry in entries:
                edit(side, case.wrong, entry)
            file.write_text(json.dumps(values), "utf-8")

    case.after.append(change)


def entry(change: Callable[[Row], object], *, sides: Sequence[str] = law_sides.SIDES) -> Apply:
    """Edit the manifest's entry of the failing tensor."""

    def apply(case: Comparison) -> None:
        manifests(case, lambda side, _, found: change(found) and None if side in sides else None)

    return apply


def archive(
    change: Callable[[dict[str, Any], str, dict[str, Any]], None], *, sides: Sequence[str] = ("left",)
) -> Apply:
    """Edit the archive of sketches; the change gets its members, the failing one's name, and the right's members."""

    def apply(case: Comparison) -> None:
        def edit() -> None:
            members = {side: _members(case, side) for side in law_sides.SIDES}
            for side in sides:
                mine, name = members[side]
                change(mine, name, {"": members["right"][0][members["right"][1]]})
                np.savez(case.folder(side) / "tensors.npz", **mine)

        case.after.append(edit)

    return apply


def _members(case: Comparison, side: str) -> tuple[dict[str, Any], str]:
    entries = json.loads((case.folder(side) / "msdump.json").read_text("utf-8"))["tensors"]
    name = next(path for path, found in entries.items() if found["op"] == case.wrong)
    with np.load(case.folder(side) / "tensors.npz") as archive:
        found = {member: archive[member] for member in archive.files}
    name = name.removesuffix(".npy")
    if "norm" not in entries[f"{name}.npy"] or name not in found:
        raise NotHereError
    return found, name


def _put(value: Callable[[Any, Any], Any]) -> Callable[[dict[str, Any], str, dict[str, Any]], None]:
    def change(members: dict[str, Any], name: str, right: dict[str, Any]) -> None:
        members[name] = value(members[name], right[""])

    return change


def with_norms_apart(apply: Apply) -> Apply:
    """Only where the norms of both sides say by themselves that they differ."""

    def checked(case: Comparison) -> None:
        norms = [law_sides.statistics_of(side[case.wrong])["l2_norm"] for side in (case.tested, case.reference)]
        if case.wrong == "ids" or not abs(norms[0] - norms[1]) > 0.2 * norms[1]:
            raise NotHereError
        apply(case)

    return checked


def nan_moved(case: Comparison) -> None:
    """As many NaN on both sides, at other places."""
    old = case.reference[case.wrong]
    if case.wrong == "ids":
        raise NotHereError
    assert old.array is not None
    for tensors, first in ((case.tested, 0), (case.reference, 2000)):
        array = old.array.copy()
        array.flat[first : first + 500] = np.nan
        tensors[case.wrong] = old._replace(array=array)


EVIDENCE: tuple[Form, ...] = (
    *(Form("nothing", f"{name} alone", nothing, (name,)) for name in STORES),
    # Digests
    Form("digests", "honest", claimed(lambda _, side, __, true: true[side]), DIGESTS),
    Form("digests", "the left's is the right's", claimed(lambda _, __, ___, true: true["right"]), DIGESTS),
    Form(
        "digests",
        "0 on both sides",
        claimed(lambda case, *_: 0 if case.store.name == "debug log" else "0x" + "0" * 16),
        TABLES,
    ),
    Form(
        "digests",
        "of another tensor",
        claimed(lambda *_: "d41d8cd98f00b204e9800998ecf8427e"),
        ("statistic table", "sketch"),
    ),
    Form("digests", "another CRC on both sides", claimed(lambda *_: "deadbeef"), ("msprobe",)),
    Form(
        "digests",
        "cut off",
        claimed(lambda _, __, ___, true: str(true["right"])[:4]),
        ("msprobe", "statistic table", "sketch"),
    ),
    Form("digests", "empty", claimed(lambda *_: ""), ("msprobe", "statistic table", "sketch")),
    Form("digests", "nan", claimed(lambda *_: "nan"), ("msprobe", "statistic table", "sketch")),
    Form(
        "digests",
        "in capitals",
        claimed(lambda _, side, __, true: str(true["right"]).upper() if side == "left" else true["right"]),
        ("msprobe", "statistic table", "sketch"),
    ),
    Form(
        "digests", "on one side", claimed(lambda _, side, __, true: true["right"] if side == "right" else None), TABLES
    ),
    Form("digests", "equal, and numbers are NaN", numbers_gone, TABLES),
    Form("digests", "said twice", said_twice, ("msprobe", "sketch")),
    Form("digests", "a sound run's table beside the tensors", table_beside, ("mindspore",)),
    # Saved numbers
    Form("statistics", "NaN on the left", rows(lambda row: row.update(_numbers(row, np.nan)), sides=("left",)), TABLES),
    Form("statistics", "NaN on both sides", rows(lambda row: row.update(_numbers(row, np.nan))), TABLES),
    Form("statistics", "Inf on both sides", rows(lambda row: row.update(_numbers(row, np.inf))), TABLES),
    Form("statistics", "none", rows(_only()), ("msprobe", "statistic table")),
    Form("statistics", "none on the left", rows(_only(), sides=("left",)), ("msprobe", "statistic table")),
    Form("statistics", "of another shape", rows(lambda row: row.update(shape=[3, 5]), sides=("left",)), TABLES),
    Form("statistics", "of no element", rows(lambda row: row.update(shape=[0, 4])), TABLES, may="warn"),
    Form("statistics", "of another type", still_wrong(rows(put(dtype="bfloat16"))), TABLES),
    Form("statistics", "said to be integers", rows(put(dtype="int32")), TABLES),
    Form("statistics", "texts", rows(lambda row: row.update(_numbers(row, "1.0"))), ("msprobe",)),
    Form("statistics", "dump.json cut off", torn("dump.json", 0.6), ("msprobe",)),
    Form("statistics", "table cut off", torn("statistic.csv", 0.9), ("statistic table",), may="a share"),
    Form("statistics", "log cut off", torn("rank_0.json", 0.6), ("debug log",)),
    Form("statistics", "tensor said twice", tensor_said_twice, ("msprobe",)),
    Form("statistics", "row said twice", row_said_twice, ("statistic table",)),
    # Sketches
    Form("sketch", "honest", nothing, ("sketch", "half sketched")),
    Form(
        "sketch",
        "the right's numbers with the left's norm",
        with_norms_apart(archive(_put(lambda _, right: right))),
        ("sketch",),
    ),
    Form(
        "sketch",
        "all zero on both sides",
        archive(_put(lambda own, _: np.zeros_like(own)), sides=law_sides.SIDES),
        ("sketch",),
        30,
    ),
    Form(
        "sketch",
        "NaN on both sides",
        archive(_put(lambda own, _: np.full_like(own, np.nan)), sides=law_sides.SIDES),
        ("sketch",),
    ),
    Form("sketch", "of fewer numbers", archive(_put(lambda own, _: own[:512]), sides=law_sides.SIDES), ("sketch",)),
    Form("sketch", "archive cut off", torn("tensors.npz", 0.7), ("sketch",)),
    Form("sketch", "a huge norm on the right", entry(put(norm=1e30), sides=("right",)), ("sketch",)),
    Form("sketch", "a huge norm on both sides", entry(put(norm=1e30)), ("sketch",)),
    Form("sketch", "norms NaN", entry(put(norm="nan")), ("sketch",)),
    Form("sketch", "norms Inf", entry(put(norm="inf")), ("sketch",)),
    Form("sketch", "norms 0", entry(put(norm=0.0)), ("sketch",)),
    Form("sketch", "norms negative", entry(put(norm=-1.0)), ("sketch",)),
    Form("sketch", "no norm", entry(lambda found: found.pop("norm")), ("sketch",)),
    Form("sketch", "no statistics", entry(lambda found: found.pop("statistics")), ("sketch",)),
    Form("sketch", "of another shape", entry(put(shape=[2, 3]), sides=("left",)), ("sketch",)),
    Form("sketch", "of another type", still_wrong(entry(put(dtype="bfloat16"))), ("sketch",)),
    Form("sketch", "said to be integers", entry(put(dtype="int32")), ("sketch",)),
    Form("sketch", "NaN at other places", nan_moved, ("sketch",), may="warn"),
)
