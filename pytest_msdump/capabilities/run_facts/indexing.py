"""Add to a dump what the files beside it say of the run; notes say what does not fit together."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.graphs.execution_order import find_orders, read_order
from pytest_msdump.core.dumps.run_history import RunHistory, rank_of, ranks_in, read_histories
from pytest_msdump.core.dumps.sidefiles import read_run_labels, read_text
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.model.dump import EVERY_ITERATION, PARAMETER, Dump, DumpConfiguration, RunFacts
from pytest_msdump.core.model.tensor import Coordinates, TensorRef
from pytest_msdump.core.ports import IndexRequest
from pytest_msdump.core.storage.files import names_in
from pytest_msdump.core.storage.locations import absolute_path
from pytest_msdump.core.text import Message, say

# Facts of a run from the files beside its dump: version, device, and the dump configuration.
#
# References
# ----------
# MindSpore "Dump" documentation: ``rank_R/.dump_metadata/`` holds ``config.json`` and a copy of ``data_dump.json``;
# up to 1.3 the copy lies in ``.metadata/``. With O2 MindSpore writes an ``acl_dump_D.json`` for each device beside
# the steps. MindSpore 2.10 on CPU: neither copy is written again by a later run into the same directory.

_MAX_BYTES = 2**20
_MOST_KERNELS = 10_000
_MOST_ITERATIONS = 5

_ACL = re.compile(r"acl_dump_([0-9]{1,9})\.json")
_METADATA, _FIRST_METADATA = ".dump_metadata", ".metadata"
_DATA_DUMP, _CONFIG = "data_dump.json", "config.json"
# rank, net, graph, iteration; net, device, iteration.
_LEVELS = 4

# Devices on which MindSpore ignores what only Ascend can do.
_WITHOUT_DEBUG = frozenset({"CPU", "GPU"})
_IO = {0: "all", 1: "input", 2: "output"}
_ACL_IO = frozenset({"all", "input", "output"})
_OVERFLOW, _EXCEPTION = "overflow", "exception"
_SCENES = {1: _OVERFLOW, 2: _OVERFLOW, 3: _OVERFLOW, 4: _EXCEPTION}
_ONLY_LISTED, _BY_SCRIPT = 1, 2
_DEFAULT_SAMPLE = 100


def read_run(root: Path) -> tuple[RunFacts | None, tuple[str, ...]]:
    """Read the small files beside a dump, or a part of one: ``None`` where they say nothing; notes on unusable ones."""
    facts: dict[str, set[str]] = {"ms_version": set(), "device_target": set()}
    configurations: list[DumpConfiguration] = []
    notes: list[str] = []
    for rank, folder in _metadata_folders(root):
        labels, _ = read_run_labels(folder / _CONFIG)
        for name, value in labels.items():
            facts[name].add(value)
        device = labels.get("device_target")
        configurations += _read_configuration(root, folder / _DATA_DUMP, rank, device, notes)
    for name in names_in(root, "acl_dump_"):
        if match := _ACL.fullmatch(name):
            configurations += _read_configuration(root, root / name, int(match[1]), None, notes)
    version, target = (next(iter(found)) if len(found) == 1 else None for found in facts.values())
    if not configurations and version is None and target is None:
        return None, tuple(notes)
    return RunFacts(version, target, tuple(configurations)), tuple(notes)


def configuration_of(
    document: object, *, source: str, rank: int | None = None, device: str | None = None
) -> DumpConfiguration | None:
    """Return what a configuration of either kind says of a run on `device`; ``None`` when it is of neither."""
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("common_dump_settings"), dict):
        return _parse_data_dump(document, source=source, rank=rank, device=device)
    if isinstance(document.get("dump"), dict):
        return _parse_acl_dump(document["dump"], source=source, rank=rank)
    return None


def _parse_data_dump(
    document: Mapping[str, Any], *, source: str, rank: int | None = None, device: str | None = None
) -> DumpConfiguration:
    """Read a ``data_dump.json`` of any release. What makes no sense counts as not said."""
    common, e2e = document["common_dump_settings"], _section(document, "e2e_dump_settings")
    asynchronous = _section(document, "async_dump_settings")
    # Up to 1.3 the overflow check is a key of the asynchronous dump, over which the synchronous one wins.
    is_asynchronous = asynchronous.get("enable") is True and e2e.get("enable") is not True
    scene = _SCENES.get(_whole((asynchronous if is_asynchronous else common).get("op_debug_mode")), "")
    if (device or "").upper() in _WITHOUT_DEBUG:
        # Overflow is not looked for there; an exception dump has the Parameters alone.
        scene = _EXCEPTION if scene == _EXCEPTION else ""
    if scene:
        return DumpConfiguration(source, rank, io="input" if scene == _EXCEPTION else "all", scene=scene)
    mode = _whole(common.get("dump_mode"))
    return DumpConfiguration(
        source,
        rank,
        io=_IO.get(_whole(common.get("input_output")), "all"),
        iterations=_wanted_iterations(common.get("iteration")),
        kernels=_texts(common.get("kernels")) if mode == _ONLY_LISTED else (),
        by_script=mode == _BY_SCRIPT,
        sample=_sample(e2e, device),
    )


def _parse_acl_dump(section: Mapping[str, Any], *, source: str, rank: int | None = None) -> DumpConfiguration:
    """Read the section ``dump`` of an ``acl.json``."""
    if section.get("dump_debug") == "on":
        return DumpConfiguration(source, rank, scene=_OVERFLOW)
    if isinstance(section.get("dump_scene"), str) and "exception" in section["dump_scene"]:
        return DumpConfiguration(source, rank, io="input", scene=_EXCEPTION)
    said = section.get("dump_mode")
    io = said if isinstance(said, str) and said in _ACL_IO else "all"
    layers = [_texts(model.get("layer")) for model in _list(section.get("dump_list")) if isinstance(model, dict)]
    # A model without a list of layers is dumped whole.
    listed = tuple(layer for names in layers for layer in names) if layers and all(layers) else ()
    return DumpConfiguration(source, rank, io=io, kernels=listed[:_MOST_KERNELS])


def _wanted_iterations(value: Any) -> str:
    """Return the iterations; up to 1.3 a number, of which 0 stands for all."""
    if isinstance(value, bool):
        return EVERY_ITERATION
    if isinstance(value, int):
        return str(value) if value > 0 else EVERY_ITERATION
    return value if isinstance(value, str) and value else EVERY_ITERATION


def _sample(e2e: Mapping[str, Any], device: str | None) -> int | None:
    """Return how much of each tensor is saved; a CPU and a GPU save the whole."""
    if _whole(e2e.get("sample_mode")) != 1 or (device or "").upper() in _WITHOUT_DEBUG:
        return None
    number = _whole(e2e.get("sample_num", _DEFAULT_SAMPLE))
    return number if number > 0 else None


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in _list(value) if isinstance(one, str))


def _list(value: Any) -> Sequence[Any]:
    return value[:_MOST_KERNELS] if isinstance(value, list) else ()


def _read_configuration(
    root: Path, path: Path, rank: int | None, device: str | None, notes: list[str]
) -> Iterable[DumpConfiguration]:
    """Read one configuration; nothing, and a note, where it cannot be used."""
    if not path.exists():
        return ()
    source = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    text, failure = read_text(path, _MAX_BYTES)
    configuration = None
    try:
        document = None if failure else json.loads(text)
        # An empty object says nothing, and nothing wrong.
        if document in ({}, {"dump": {}}):
            return ()
        configuration = configuration_of(document, source=source, rank=rank, device=device)
    except (ValueError, RecursionError):
        failure = "is not JSON"
    if configuration is None:
        notes.append(f"{source} {failure or 'is no dump configuration'}, so it is unknown what the run was set to dump")
        return ()
    return (configuration,)


def _metadata_folders(root: Path) -> Iterator[tuple[int | None, Path]]:
    """Yield the side files' folders of ranks in, at and above the root, and those of releases up to 1.3 without one."""
    for rank, folder in ranks_in(root):
        yield rank, folder / _METADATA
    absolute = absolute_path(root)
    for folder in (root, *list(absolute.parents)[:_LEVELS]):
        own = rank_of(folder)
        if own is not None:
            yield own, folder / _METADATA
        if (folder / _FIRST_METADATA / _DATA_DUMP).is_file():
            yield None, folder / _FIRST_METADATA


def with_run(dump: Dump, request: IndexRequest) -> Dump:  # noqa: ARG001 - as every stage takes it
    """Add version, device and configuration from the files beside a dump; notes say what does not fit together."""
    if not dump.root.is_dir():
        return dump
    run, notes = read_run(dump.root)
    notes_now = [*dump.notes, *(note for note in notes if note not in dump.notes)]
    if run is not None:
        checked = [_checked(one, dump.refs, notes_now) for one in run.configurations]
        run = run._replace(configurations=tuple(checked))
        notes_now += [note for note in _scenes(run) if note not in notes_now]
        if not dump.refs and not dump.older and not dump.unexplained:
            notes_now.append(say(Message("note_ended_early")))
        dump = _sampled(dump, run)
    histories, failures = read_histories(dump.root)
    notes_now += failures
    notes_now += disagreements(histories, (*dump.refs, *dump.older), ran_nothing=_ran_nothing(dump, run))
    return replace(dump, run=run, notes=tuple(notes_now), labels=_labels(dump, run))


def _sampled(dump: Dump, run: RunFacts) -> Dump:
    """Mark the tensors of ranks that saved samples."""
    if all(one.sample is None for one in run.configurations):
        return dump
    samples = {
        rank: one.sample for rank in {ref.key.op.at.rank for ref in dump.refs} if (one := run.configuration(rank))
    }
    return replace(dump, refs=tuple(replace(ref, sample=samples.get(ref.key.op.at.rank)) for ref in dump.refs))


def _labels(dump: Dump, run: RunFacts | None) -> tuple[tuple[str, str], ...]:
    """Return the dump's labels, with version and device if its reader does not know their file."""
    known = dict(dump.labels)
    if run is not None:
        for name, value in (("ms_version", run.version), ("device_target", run.device)):
            if value is not None:
                known.setdefault(name, value)
    return tuple(sorted(known.items()))


def _scenes(run: RunFacts) -> Iterator[str]:
    for one in run.configurations:
        if one.scene == "exception" and run.device in ("CPU", "GPU"):
            yield say(Message("note_exception_on", {"device": run.device}))
        elif one.scene:
            yield say(Message(f"note_{one.scene}_dump"))
        if one.sample is not None:
            yield say(Message("note_sampled_dump", {"sample": one.sample}))


def _checked(one: DumpConfiguration, refs: Iterable[TensorRef], notes: list[str]) -> DumpConfiguration:
    """Take out of a configuration what tensors of its rank contradict."""
    own = [ref for ref in refs if one.rank is None or ref.key.op.at.rank in (None, one.rank)]
    operators = [ref for ref in own if ref.key.op.op_type != PARAMETER]
    wrong: list[str] = []
    if any(not one.selects_io(ref.key.io) for ref in operators):
        wrong.append(f"{one.io}s only")
        one = replace(one, io="all", scene="" if one.scene == "exception" else one.scene)
    iterations = {ref.key.op.at.iteration for ref in own if ref.key.op.at.iteration is not None}
    if not all(map(one.selects_iteration, iterations)):
        wrong.append(f"iteration {one.iterations!r}")
        one = replace(one, iterations=EVERY_ITERATION)
    if one.kernels and any(one.selects_operator(op) is False for op in {ref.key.op for ref in operators}):
        wrong.append(f"the kernels {one.kernels_text}")
        one = replace(one, kernels=())
    if wrong:
        notes.append(f"{one.source} says {' and '.join(wrong)}, but there are other tensors: it is of another run")
    return one


def _ran_nothing(dump: Dump, run: RunFacts | None) -> Callable[[int, int], bool]:
    """Return whether a graph may have run without a trace: it has no operators, or none that was to be dumped."""

    def ran_nothing(rank: int, graph: int) -> bool:
        one = run.configuration(rank) if run else None
        if one is not None and (one.kernels or one.scene or one.by_script or one.io != "all"):
            return True
        path = find_orders(dump.root).get(Coordinates(rank=rank, graph=graph))
        try:
            return path is None or not read_order(path)
        except MsdumpError:
            return True

    return ran_nothing


def disagreements(
    histories: Iterable[RunHistory], refs: Iterable[TensorRef], *, ran_nothing: Callable[[int, int], bool]
) -> Iterator[str]:
    """Yield a sentence for each rank whose directories and histories have different iterations."""
    dumped: defaultdict[int, defaultdict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for ref in refs:
        at = ref.key.op.at
        if at.rank is not None and at.graph is not None and at.iteration is not None:
            dumped[at.rank][at.graph].add(at.iteration)
    by_rank: defaultdict[int, list[RunHistory]] = defaultdict(list)
    for history in histories:
        by_rank[history.rank].append(history)
    for rank, own in sorted(by_rank.items()):
        yield from _absent(own, dumped[rank], ran_nothing)
        # Of all graphs together: where networks take turns, one's runs are noted for the other.
        noted = frozenset().union(*(history.iterations for history in own))
        extra = frozenset().union(*dumped[rank].values()) - noted
        if extra:
            first, more = own[0].source, len(own) - 1
            source = f"{first} and {more} more do not" if more else f"{first} does not"
            yield f"incomplete or mixed dump: there are tensors of {_iterations(extra)}, which {source} list"


def _absent(
    histories: Iterable[RunHistory], dumped: Mapping[int, set[int]], ran_nothing: Callable[[int, int], bool]
) -> Iterator[str]:
    for history in histories:
        there = dumped.get(history.graph, set())
        absent = history.iterations - there
        # Every iteration of a graph runs the same operators, so what dumped nothing in one did so in all.
        if absent and (there or not ran_nothing(history.rank, history.graph)):
            yield (
                f"incomplete or mixed dump: {history.source} lists {_iterations(history.iterations)}, but of "
                f"{_iterations(absent)} there is no tensor of graph {history.graph}"
            )


def _iterations(numbers: Iterable[int]) -> str:
    """Return ``"iteration 3"``, or ``"iterations 0-2, 5"``."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [f"{first}" if first == last else f"{first}-{last}" for first, last in ranges]
    word = "iteration" if len(ranges) == 1 and ranges[0][0] == ranges[0][1] else "iterations"
    return f"{word} {listed(texts, _MOST_ITERATIONS)}"
