"""What lies beside a dump of the run that wrote it: version, device, and what it was told to dump.

References
----------
MindSpore "Dump" documentation: ``rank_R/.dump_metadata/`` holds ``config.json`` and a copy of ``data_dump.json``; up to
1.3 the copy lies in ``.metadata/``. With O2 MindSpore writes an ``acl_dump_D.json`` for each device beside the steps.
MindSpore 2.10 on CPU: neither copy is written again by a later run into the same directory.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.dumps.sidefiles import read_run_labels, read_text
from pytest_msdump.model.dump import EVERY_ITERATION, DumpConfiguration, RunFacts
from pytest_msdump.model.tensor import TensorRef
from pytest_msdump.storage.listings import names_in
from pytest_msdump.storage.remote import spelled_out

__all__ = [
    "History",
    "configuration_of",
    "disagreements",
    "parse_history",
    "read_histories",
    "read_run",
    "run_once",
]

_MAX_CONFIG_BYTES = 2**20
_MOST_KERNELS = 10_000

_RANK = re.compile(r"rank_([0-9]{1,9})")
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


class _Found(NamedTuple):
    """The side files of one rank, or of all of them."""

    rank: int | None
    folder: Path


def read_run(root: Path) -> tuple[RunFacts | None, tuple[str, ...]]:
    """Read the small files that lie beside a dump.

    Parameters
    ----------
    root : Path
        The dump's root: the tree, one rank of it, or a directory further down.

    Returns
    -------
    RunFacts or None
        ``None`` where nothing is said of the run.
    tuple of str
        A sentence about each file that cannot be used.
    """
    facts: dict[str, set[str]] = {"ms_version": set(), "device_target": set()}
    configurations: list[DumpConfiguration] = []
    notes: list[str] = []
    for found in _metadata_folders(root):
        labels, _ = read_run_labels(found.folder / _CONFIG)
        for name, value in labels:
            facts[name].add(value)
        device = dict(labels).get("device_target")
        configurations += _read_one(root, found.folder / _DATA_DUMP, found.rank, device, notes)
    for device_id, path in _acl_files(root):
        configurations += _read_one(root, path, device_id, None, notes)
    version, target = (next(iter(facts[name]), None) if len(facts[name]) == 1 else None for name in facts)
    if not configurations and version is None and target is None:
        return None, tuple(notes)
    return RunFacts(version, target, tuple(configurations)), tuple(notes)


def configuration_of(
    document: object, *, source: str, rank: int | None = None, device: str | None = None
) -> DumpConfiguration | None:
    """Return what a configuration of either kind says; ``None`` when it is neither."""
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("common_dump_settings"), dict):
        return parse_data_dump(document, source=source, rank=rank, device=device)
    if isinstance(document.get("dump"), dict):
        return parse_acl_dump(document["dump"], source=source, rank=rank)
    return None


def parse_data_dump(
    document: Mapping[str, Any], *, source: str, rank: int | None = None, device: str | None = None
) -> DumpConfiguration:
    """Read a ``data_dump.json`` of any release. What makes no sense counts as not said.

    Parameters
    ----------
    document : mapping
        The parsed JSON.
    source : str
        What messages call the file.
    rank : int, optional
        Whose it is.
    device : str, optional
        As MindSpore calls it; what a CPU or GPU ignores does not count there.
    """
    common, e2e = document["common_dump_settings"], _section(document, "e2e_dump_settings")
    scene = _SCENES.get(_whole(_debug_mode(document, common, e2e)), "")
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


def parse_acl_dump(section: Mapping[str, Any], *, source: str, rank: int | None = None) -> DumpConfiguration:
    """Read the section ``dump`` of an ``acl.json``.

    `dump_step` is left out: MindSpore writes a number there that stands for "not yet", and counts steps in directories.
    """
    if section.get("dump_debug") == "on":
        return DumpConfiguration(source, rank, scene=_OVERFLOW)
    if isinstance(section.get("dump_scene"), str) and "exception" in section["dump_scene"]:
        return DumpConfiguration(source, rank, io="input", scene=_EXCEPTION)
    said = section.get("dump_mode")
    io = said if isinstance(said, str) and said in _ACL_IO else "all"
    layers = [_texts(model.get("layer")) for model in _dicts(section.get("dump_list"))]
    # A model without a list of layers is dumped whole.
    listed = tuple(layer for names in layers for layer in names) if layers and all(layers) else ()
    return DumpConfiguration(source, rank, io=io, kernels=listed[:_MOST_KERNELS])


def _debug_mode(document: Mapping[str, Any], common: Mapping[str, Any], e2e: Mapping[str, Any]) -> Any:
    """The overflow check: up to 1.3 a key of the asynchronous dump, which the synchronous one wins over."""
    asynchronous = _section(document, "async_dump_settings")
    if asynchronous.get("enable") is True and e2e.get("enable") is not True:
        return asynchronous.get("op_debug_mode")
    return common.get("op_debug_mode")


def _wanted_iterations(value: Any) -> str:
    """Which iterations; up to 1.3 a number, of which 0 stands for all."""
    if isinstance(value, bool):
        return EVERY_ITERATION
    if isinstance(value, int):
        return str(value) if value > 0 else EVERY_ITERATION
    return value if isinstance(value, str) and value else EVERY_ITERATION


def _sample(e2e: Mapping[str, Any], device: str | None) -> int | None:
    """How much of each tensor is saved; a CPU and a GPU save the whole."""
    if _whole(e2e.get("sample_mode")) != 1 or (device or "").upper() in _WITHOUT_DEBUG:
        return None
    number = _whole(e2e.get("sample_num", _DEFAULT_SAMPLE))
    return number if number > 0 else None


def _section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _whole(value: Any) -> int:
    """A whole number; -1 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in value[:_MOST_KERNELS] if isinstance(one, str)) if isinstance(value, list) else ()


def _dicts(value: Any) -> Sequence[Mapping[str, Any]]:
    return [one for one in value[:_MOST_KERNELS] if isinstance(one, dict)] if isinstance(value, list) else ()


def _read_one(
    root: Path, path: Path, rank: int | None, device: str | None, notes: list[str]
) -> Iterable[DumpConfiguration]:
    """Read one configuration; nothing, and a note, where it cannot be."""
    if not path.exists():
        return ()
    source = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    text, failure = read_text(path, _MAX_CONFIG_BYTES)
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
        notes.append(f"{source} {failure or 'is no dump configuration'}, so what the run was told to dump is unknown")
        return ()
    return (configuration,)


def _metadata_folders(root: Path) -> Iterator[_Found]:
    absolute = spelled_out(root)
    for name in names_in(root, "rank_"):
        if match := _RANK.fullmatch(name):
            yield _Found(int(match[1]), root / name / _METADATA)
    for depth, folder in enumerate((absolute, *absolute.parents)[: _LEVELS + 1]):
        own = root if depth == 0 else folder
        if match := _RANK.fullmatch(folder.name):
            yield _Found(int(match[1]), own / _METADATA)
        if (own / _FIRST_METADATA / _DATA_DUMP).is_file():
            yield _Found(None, own / _FIRST_METADATA)


def _acl_files(root: Path) -> Iterator[tuple[int, Path]]:
    for name in names_in(root, "acl_dump_"):
        if match := _ACL.fullmatch(name):
            yield int(match[1]), root / name


# -- Which iterations of a graph were dumped, as the run noted it ----------------------------------------------------


_MAX_BYTES = 2**24
_FILE = re.compile(r"ms_global_execution_order_graph_([0-9]{1,18})\.csv")
_FOLDER = "execution_order"
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_MOST_LISTED = 5


class History(NamedTuple):
    """The iterations that one graph of a rank was dumped in, and those of them that are noted more than once.

    `source` is the file's name below the dump's root.
    """

    source: str
    rank: int
    graph: int
    iterations: frozenset[int]
    repeated: frozenset[int] = frozenset()


def parse_history(text: str) -> tuple[int, ...]:
    """Return the numbers of an execution history, line by line.

    Raises
    ------
    ValueError
        A line is none.
    """
    lines = [line.strip() for line in text.splitlines()]
    for number, line in enumerate(lines, start=1):
        if line and not _NUMBER.fullmatch(line):
            raise ValueError(f"line {number} is no iteration")
    return tuple(int(line) for line in lines if line)


def read_histories(root: Path) -> tuple[Sequence[History], tuple[str, ...]]:
    """Read the histories of a dump tree, or of one rank of it; a directory further down has no whole run to be held to.

    Returns
    -------
    sequence of History
        Those that could be read.
    tuple of str
        A sentence about each of the others.
    """
    found: list[History] = []
    notes: list[str] = []
    for rank, folder in _rank_folders(root):
        for name in names_in(folder / _FOLDER):
            match = _FILE.fullmatch(name)
            if match is None:
                continue
            path = folder / _FOLDER / name
            source = path.relative_to(root).as_posix()
            text, failure = read_text(path, _MAX_BYTES)
            try:
                if not failure:
                    counts = Counter(parse_history(text))
                    repeated = frozenset(number for number, count in counts.items() if count > 1)
                    found.append(History(source, rank, int(match[1]), frozenset(counts), repeated))
            except ValueError as error:
                failure = f"is no execution history: {error}"
            if failure:
                notes.append(f"{source} {failure}")
    return found, tuple(notes)


def run_once(histories: Iterable[History]) -> frozenset[tuple[int, int]]:
    """Return the ranks and iterations that histories note, and none of them more than once.

    Every run adds its own lines, so that a second one into the same directory notes its iterations again.
    """
    told = list(histories)
    again = {(history.rank, number) for history in told for number in history.repeated}
    return frozenset((history.rank, number) for history in told for number in history.iterations) - again


def disagreements(
    histories: Iterable[History], refs: Iterable[TensorRef], *, ran_nothing: Callable[[int, int], bool]
) -> Iterator[str]:
    """Yield a sentence for each rank whose directories and histories tell of different iterations.

    Parameters
    ----------
    histories : iterable of History
        As `read_histories` gives them.
    refs : iterable of TensorRef
        All tensors of the dump, those of older runs too.
    ran_nothing : callable
        Whether a graph, by rank and number, need not have dumped anything.
    """
    dumped: defaultdict[int, defaultdict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for ref in refs:
        at = ref.key.op.at
        if at.rank is not None and at.graph is not None and at.iteration is not None:
            dumped[at.rank][at.graph].add(at.iteration)
    by_rank: defaultdict[int, list[History]] = defaultdict(list)
    for history in histories:
        by_rank[history.rank].append(history)
    for rank, told in sorted(by_rank.items()):
        yield from _absent(told, dumped[rank], ran_nothing)
        yield from _extra(told, dumped[rank])


def _absent(
    told: Iterable[History], dumped: Mapping[int, set[int]], ran_nothing: Callable[[int, int], bool]
) -> Iterator[str]:
    for history in told:
        there = dumped.get(history.graph, set())
        absent = history.iterations - there
        # Every iteration of a graph runs the same operators, so what dumped nothing in one did so in all.
        if absent and (there or not ran_nothing(history.rank, history.graph)):
            yield (
                f"incomplete or mixed dump: {history.source} lists {_iterations(history.iterations)}, but of "
                f"{_iterations(absent)} there is no tensor of graph {history.graph}"
            )


def _extra(told: Sequence[History], dumped: Mapping[int, set[int]]) -> Iterator[str]:
    # Of all graphs together: where networks take turns, one's runs are noted for the other.
    listed = frozenset().union(*(history.iterations for history in told))
    there = frozenset().union(*dumped.values())
    if there - listed:
        source = told[0].source if len(told) == 1 else f"{told[0].source} and {len(told) - 1} more"
        yield (
            f"incomplete or mixed dump: there are tensors of {_iterations(there - listed)}, which {source} "
            f"{'does' if len(told) == 1 else 'do'} not list"
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
    more = f" and {len(texts) - _MOST_LISTED} more" if len(texts) > _MOST_LISTED else ""
    word = "iteration" if len(ranges) == 1 and ranges[0][0] == ranges[0][1] else "iterations"
    return f"{word} {', '.join(texts[:_MOST_LISTED])}{more}"


def _rank_folders(root: Path) -> Iterator[tuple[int, Path]]:
    own = _RANK.fullmatch(spelled_out(root).name)
    if own:
        yield int(own[1]), root
    for name in names_in(root, "rank_"):
        if match := _RANK.fullmatch(name):
            yield int(match[1]), root / name
