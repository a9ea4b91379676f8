"""Views, suggestions, replays, saved results and caches beside comparisons that fail: none of them may clear one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from campaign import law_sides
from campaign.law_forms import WHOLE, Apply, Form, arguments, nothing, put, settings, tables, together
from campaign.law_sides import LENGTH, Comparison, Row, Tensors
from campaign.trials import NotHereError, Outcome, by_command, quietly
from operator_networks import network

# -- views -------------------------------------------------------------------------------------------------------------


def twin(case: Comparison) -> None:
    """The right side has another tensor with the left's wrong values, and the map names it."""
    case.tables += ["[[msdump.map]]", f'left = "{case.wrong}"', 'right = "twin"']
    case.reference = {**case.reference, "twin": case.tested[case.wrong]}


def left_lacks(*, others: int) -> Apply:
    """The left was not dumped where it is wrong, and in so many other places."""

    def apply(case: Comparison) -> None:
        gone = [case.wrong, *[name for name in case.tested if name != case.wrong][:others]]
        case.tested = {name: values for name, values in case.tested.items() if name not in gone}

    return apply


def cut(tokens: int) -> Apply:
    """The left has so many steps of 8 tokens only, and its wrong values are in the later ones."""

    def apply(case: Comparison) -> None:
        right, wrong = case.reference[case.wrong], case.tested[case.wrong]
        assert right.array is not None
        assert wrong.array is not None
        sound = right.array.copy()
        sound[:, tokens:] = wrong.array[:, tokens:]
        case.tested[case.wrong] = right._replace(array=sound)

        def stop() -> None:
            for number in range(LENGTH):
                if (folder := case.folder("left") / str(number)).is_dir() and number >= tokens:
                    shutil.rmtree(folder)

        case.after.append(stop)

    return apply


def cropped(share: float) -> Apply:
    """The left has a share of the channels only, its wrong values in the rest, and the map crops them."""

    def apply(case: Comparison) -> None:
        if case.wrong == "ids":
            raise NotHereError
        case.tables += ["[[msdump.map]]", 'left = "*"', 'right = "*"', "crop = 2"]
        for name, values in case.reference.items():
            if values.array is not None and values.array.ndim == 3:
                part = values.array[..., : int(values.array.shape[-1] * share)]
                case.tested[name] = values._replace(array=np.ascontiguousarray(part))
        case.tables[-3:] = [f'left = "{case.wrong}"', f'right = "{case.wrong}"', "crop = 2"]
        case.tested = {case.wrong: case.tested[case.wrong]}
        case.reference = {case.wrong: case.reference[case.wrong]}

    return apply


# -- suggestions -------------------------------------------------------------------------------------------------------


def suggested(*moves: tuple[str, str], rename: str = "{}", gone: Sequence[str] = ()) -> Apply:
    """The left's tensor has the values of another one of the right; the suite that `init` writes is asked."""

    def apply(case: Comparison) -> None:
        case.tested = dict(case.reference)
        for target, source in moves:
            case.tested[target] = case.reference[source]
        case.tested = {rename.format(name): values for name, values in case.tested.items() if name not in gone}
        case.wrong = rename.format(moves[0][0])
        case.fault = "values of " + moves[0][1]
        case.ask = ask_init

    return apply


def ask_init(case: Comparison) -> Outcome:
    """Let `init` write a suite and ask it."""
    with_suite = case.root / "written.toml"
    sides = [case.given(side) for side in law_sides.SIDES]
    code, text = quietly(["init", *sides, "-o", str(with_suite)])
    if not with_suite.is_file():
        return Outcome(code, "", "no suite was written", text)
    return by_command(case, "--config", str(with_suite))


def init_alone(case: Comparison) -> None:
    case.ask = ask_init


def ask_suggest(case: Comparison) -> Outcome:
    """Ask the suite of ``match --suggest``."""
    written = case.root / "written.toml"
    sides = [case.given(side) for side in law_sides.SIDES]
    code, text = quietly(["match", *sides, "--suggest", "-o", str(written)])
    if not written.is_file():
        return Outcome(code or 1, "", "no suite was written", text)
    return by_command(case, "--config", str(written))


def match_alone(case: Comparison) -> None:
    case.ask = ask_suggest


# -- results of earlier runs -------------------------------------------------------------------------------------------


def ask_check(edit: Callable[[Comparison, str], str], *options: str) -> Apply:
    """Judge the saved result again, edited."""

    def ask(case: Comparison) -> Outcome:
        first = by_command(case)
        file = case.root / "by-command" / "results.json"
        if first.code == 0 or not file.is_file():
            return first
        file.write_text(edit(case, file.read_text("utf-8")), "utf-8")
        code, text = quietly(["check", str(file), *options])
        return Outcome(code, "", "", text)

    def apply(case: Comparison) -> None:
        case.ask = ask

    return apply


def _records(change: Callable[[Row], object]) -> Callable[[Comparison, str], str]:
    """Change the failing records."""

    def edit(_: Comparison, text: str) -> str:
        values = json.loads(text)
        for record in values["tensors"]:
            if record["verdict"] != "pass":
                change(record)
        return json.dumps(values)

    return edit


def _without_failing(_: Comparison, text: str) -> str:
    """As a filter leaves them; nothing stops a program that makes all counts anew."""
    values = json.loads(text)
    values["tensors"] = [record for record in values["tensors"] if record["verdict"] == "pass"]
    return json.dumps(values)


def cached(kind: str, edit: Callable[[Comparison], None], *, sound_first: bool = False, loose: bool = False) -> Apply:
    """Ask twice with a cache; before the second time something was done to the cache or the dump."""

    def ask(case: Comparison) -> Outcome:
        if sound_first:
            _replace_left(case, case.reference)
        by_command(case, "--cache", kind, *(["--threshold", "rel_euclid=0.99"] if loose else []))
        if sound_first:
            _replace_left(case, case.tested)
        edit(case)
        return by_command(case, "--cache", kind)

    def apply(case: Comparison) -> None:
        case.ask = ask

    return apply


def _replace_left(case: Comparison, tensors: Tensors) -> None:
    """Other values in the same files, of the same size and times."""
    for path in case.folder("left").rglob("*.npy"):
        name, state = path.name.partition(".")[0], path.stat()
        values = tensors[name]
        array = law_sides._bits(values)
        with path.open("r+b") as file:
            np.save(file, array)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def _cache_files(change: Callable[[bytes], bytes]) -> Callable[[Comparison], None]:
    def edit(_: Comparison) -> None:
        for path in Path(".msdump-cache").rglob("*.comparisons"):
            path.write_bytes(change(path.read_bytes()))

    return edit


# -- replay ------------------------------------------------------------------------------------------------------------


def replayed(change: Callable[[Comparison, Path], None], *, relu: Callable[[Any], Any] | None = None) -> Apply:
    """Replay the kernels of a dump in which one operator is damaged, or wrong."""

    def ask(case: Comparison) -> Outcome:
        root = case.root / "replayed"
        faults = {} if relu is None else {"gelu": lambda _, y: relu(y)}
        network(int(case.rng.integers(1000))).dump(root, faults)
        found = sorted(root.rglob("GeLU.*gelu*.output.0.*.npy"))
        change(case, found[0])
        code, text = quietly(["replay", str(root)])
        return Outcome(code, "", "", text)

    def apply(case: Comparison) -> None:
        case.ask = ask

    return apply


def _resaved(change: Callable[[Any], Any]) -> Callable[[Comparison, Path], None]:
    return lambda _, path: np.save(path, change(np.load(path)))


def _torn_file(_: Comparison, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def _inputs_gone(_: Comparison, path: Path) -> None:
    np.save(path, np.load(path) * 2)
    for other in path.parent.glob("*.input.*.npy"):
        other.unlink()


def _none_changed(_: Comparison, __: Path) -> None:
    pass


def no_such_model(*model: str) -> Apply:
    def apply(case: Comparison) -> None:
        case.arguments += ["--replay", *model]

    return apply


VIEWS: tuple[Form, ...] = (
    # Suggestions
    Form("suggestion", "honest", init_alone, ("npy", "recorded", "safetensors", "mindspore", "masked"), 4),
    Form("suggestion", "honest match", match_alone, ("npy", "recorded", "safetensors", "mindspore"), 4),
    Form("suggestion", "two swapped", suggested(("act", "norm"), ("norm", "act")), ("npy", "recorded")),
    Form(
        "suggestion",
        "two swapped below another scope",
        suggested(("act", "norm"), ("norm", "act"), rename="model.{}"),
        ("npy", "recorded"),
    ),
    Form(
        "suggestion",
        "three turned",
        suggested(("act", "norm"), ("norm", "dense"), ("dense", "act")),
        ("npy", "recorded"),
    ),
    Form("suggestion", "a sibling's values", suggested(("act", "dense")), ("npy", "recorded")),
    Form(
        "suggestion",
        "a sibling's values, which is gone",
        suggested(("act", "dense"), gone=("dense",)),
        ("npy", "recorded"),
    ),
    Form(
        "suggestion",
        "a sibling's values below another scope",
        suggested(("scores", "norm"), rename="net.head.{}"),
        ("npy", "recorded"),
    ),
    Form("suggestion", "swapped, and one is gone", suggested(("act", "norm"), gone=("norm",)), ("npy", "recorded")),
    # Replay
    Form("replay", "honest, of a wrong kernel", replayed(_none_changed, relu=lambda y: y * 1.01), ("npy",)),
    Form(
        "replay",
        "one channel wrong",
        replayed(_resaved(lambda y: np.where(np.arange(y.shape[-1]) == 3, y + 1, y).astype(y.dtype))),
        ("npy",),
    ),
    Form("replay", "NaN", replayed(_resaved(lambda y: np.full_like(y, np.nan))), ("npy",)),
    Form("replay", "Inf", replayed(_resaved(lambda y: np.full_like(y, np.inf))), ("npy",)),
    Form("replay", "cut off", replayed(_torn_file), ("npy",)),
    Form("replay", "another shape", replayed(_resaved(lambda y: y[:-1])), ("npy",)),
    Form("replay", "another type", replayed(_resaved(lambda y: y.astype(np.float64))), ("npy",)),
    Form("replay", "no elements", replayed(_resaved(lambda y: y[:0])), ("npy",)),
    Form("replay", "wrong, and no inputs", replayed(_inputs_gone), ("npy",)),
    Form("replay", "no such model", no_such_model("nosuch.py:build"), WHOLE),
    Form("replay", "no such ONNX file", no_such_model("nosuch.onnx"), WHOLE),
    # Views
    Form("view", "mapped to a twin", twin, ("npy", "recorded", "npz"), may="a share"),
    Form(
        "view",
        "mapped to a twin, all must be covered",
        together(twin, settings(min_coverage=1.0)),
        ("npy", "npz"),
        may="beside",
    ),
    Form("view", "not dumped on the left", left_lacks(others=0), WHOLE, may="a share"),
    Form("view", "most not dumped on the left", left_lacks(others=3), WHOLE),
    Form("view", "not dumped, all must be covered", together(left_lacks(others=0), settings(min_coverage=1.0)), WHOLE),
    Form("view", "one token of eight", cut(1), ("steps",), may="beside"),
    Form("view", "two tokens of eight", cut(2), ("steps",), may="beside"),
    Form(
        "view", "three tokens of eight, strict", together(cut(3), settings(profile="strict")), ("steps",), may="beside"
    ),
    Form("view", "six tokens of eight", cut(6), ("steps",), may="a share"),
    Form(
        "view",
        "six tokens of eight, all must be covered",
        together(cut(6), settings(min_coverage=1.0)),
        ("steps",),
        may="beside",
    ),
    Form("view", "cropped to two thirds", cropped(2 / 3), ("npy", "npz"), may="a share"),
    Form("view", "cropped to a third", cropped(1 / 3), ("npy", "npz"), may="beside"),
    Form(
        "view",
        "cropped to two thirds, all must be covered",
        together(cropped(2 / 3), settings(min_coverage=1.0)),
        ("npy", "npz"),
        may="beside",
    ),
    Form("view", "deselects all", arguments("--deselect", "*"), WHOLE),
    Form("view", "selects nothing", arguments("--select", "nothing_*"), WHOLE),
    Form("view", "inputs only", settings(io="input"), WHOLE),
    Form("view", "another iteration", settings(iteration=7), WHOLE),
    Form("view", "another iteration's partner", arguments("--align", "iteration=9->0"), WHOLE),
    Form("view", "paired by the map, which is empty", settings(pair_by=["map"]), WHOLE),
    Form("view", "map names nothing", tables("[[msdump.map]]", 'left = "WRONG"', 'right = "nothing"'), WHOLE),
    Form(
        "view", "map names one left twice", tables(*2 * ("[[msdump.map]]", 'left = "WRONG"', 'right = "WRONG"')), WHOLE
    ),
    Form("view", "reshaped", tables("[[msdump.map]]", 'left = "WRONG"', 'right = "WRONG"', "reshape = true"), WHOLE),
    Form("view", "another axis order", settings(left_format="NHWC"), WHOLE),
    Form("view", "tokens by another mask", tables("[msdump.shards]", 'tokens = { ids = "ids", pad = 7 }'), ("npy",)),
    Form(
        "view",
        "padding by another id",
        lambda case: case.after.append(lambda: case.tables.__setitem__(1, 'tokens = { ids = "input_ids", pad = 1 }')),
        ("tokens",),
    ),
    Form("view", "types passed over", settings(exclude_types=["MatMul"]), ("mindspore",)),
    # Saved results, caches, workers
    Form("check", "honest", ask_check(lambda _, text: text), WHOLE),
    Form("check", "verdicts edited", ask_check(_records(put(verdict="pass"))), WHOLE),
    Form(
        "check",
        "findings taken out",
        ask_check(_records(lambda record: record.update(verdict="pass", findings=[]))),
        WHOLE,
    ),
    Form("check", "failing records taken out", ask_check(_without_failing), WHOLE),
    Form(
        "check",
        "numbers NaN",
        ask_check(
            _records(
                lambda record: record.update(verdict="pass", metrics=dict.fromkeys(record.get("metrics", {}), "nan"))
            )
        ),
        WHOLE,
    ),
    Form("check", "no numbers", ask_check(_records(lambda record: record.update(verdict="pass", metrics={}))), WHOLE),
    Form("check", "not run", ask_check(_records(put(verdict="not_run"))), WHOLE),
    Form("check", "cut off", ask_check(lambda _, text: text[: len(text) // 2]), WHOLE),
    Form("check", "limit NaN", ask_check(lambda _, text: text, "--threshold", "rel_euclid=nan"), WHOLE),
    Form(
        "check",
        "verdict said twice",
        ask_check(lambda _, text: text.replace('"verdict": "fail"', '"verdict": "fail", "verdict": "pass"')),
        WHOLE,
    ),
    Form("cache", "honest, by files", cached("files", nothing), ("npy",)),
    Form("cache", "honest, by content", cached("content", nothing), ("npy",)),
    Form("cache", "stale, by files", cached("files", nothing, sound_first=True), ("npy",)),
    Form("cache", "stale, by content", cached("content", nothing, sound_first=True), ("npy",)),
    Form("cache", "of looser limits", cached("content", nothing, loose=True), ("npy",)),
    Form("cache", "edited", cached("files", _cache_files(lambda text: text.replace(b'"fail"', b'"pass"'))), ("npy",)),
    Form("cache", "cut off", cached("content", _cache_files(lambda text: text[:-40])), ("npy",)),
    Form("cache", "empty", cached("content", _cache_files(lambda _: b"")), ("npy",)),
    Form("cache", "not a cache", cached("files", _cache_files(lambda _: b"\xff" * 4096)), ("npy",)),
    Form("cache", "lines twice", cached("content", _cache_files(lambda text: text + text)), ("npy",)),
    Form("cache", "of no kind", arguments("--cache", "always"), ("npy",)),
    Form("workers", "two", arguments("--jobs", "2"), ("npy", "sketch")),
    Form("workers", "none", arguments("--jobs", "0"), WHOLE),
    Form("workers", "less than none", arguments("--jobs", "-1"), WHOLE),
    Form("workers", "no number", arguments("--jobs", "nan"), WHOLE),
    Form("workers", "two numbers", arguments("--jobs", "1,2"), WHOLE),
    Form("workers", "half a one", arguments("--jobs", "2.5"), WHOLE),
    Form("workers", "no file system of theirs", arguments("--scheduler", "nosuch.json"), WHOLE),
)
