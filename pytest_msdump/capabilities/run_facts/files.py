"""Facts of a run from the files beside its dump: version, device, and the dump configuration.

References
----------
MindSpore "Dump" documentation: ``rank_R/.dump_metadata/`` holds ``config.json`` and a copy of ``data_dump.json``; up to
1.3 the copy lies in ``.metadata/``. With O2 MindSpore writes an ``acl_dump_D.json`` for each device beside the steps.
MindSpore 2.10 on CPU: neither copy is written again by a later run into the same directory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_msdump.core.dumps.run_history import rank_of, ranks_in
from pytest_msdump.core.dumps.sidefiles import read_run_labels, read_text
from pytest_msdump.core.model.dump import EVERY_ITERATION, DumpConfiguration, RunFacts
from pytest_msdump.core.storage.files import names_in
from pytest_msdump.core.storage.locations import absolute_path

_MAX_BYTES = 2**20
_MOST_KERNELS = 10_000

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
