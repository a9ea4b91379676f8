"""Several models dumped at one time, each compared by its own rule file: ``-f`` names a folder of JSON files.

References
----------
Ascend "Accuracy Comparison Tool", batch comparison: ``dump_path/time/device_id/model_name/model_id/dump_step/``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_msdump.dumps.graphs.ge_model import MAX_BYTES
from pytest_msdump.dumps.graphs.json_fields import checked, document, need
from pytest_msdump.errors import ConfigError
from pytest_msdump.storage.files import read_user_file

__all__ = ["Job", "find_jobs"]

_LAYOUT = "TIME/DEVICE/MODEL/MODEL_ID/STEP"
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_MOST_LISTED = 5


@dataclass(frozen=True)
class Job:
    """One model of a batch: its dump, its rule file, and the names of its results and its report."""

    dump: Path
    rules: Path
    name: str
    report: str


@dataclass(frozen=True)
class _Dumped:
    device: str
    model: str
    model_id: str
    step: str
    path: Path


def find_jobs(root: Path, rules: Path) -> tuple[tuple[Job, ...], tuple[str, ...]]:
    """Return the models of a dump with their rule files, and notes about models and graphs without the other.

    `root` is a dump's folder of one time, whose name is digits; `rules` a folder of JSON files, each of which names its
    graphs. Of every device, model and model id the last step counts. A model belongs to the graph of its name, or to
    the only graph with the same second of two numbers in its name, which is a note.

    Raises
    ------
    ConfigError
        `root` is not such a folder, there is no rule file, or none fits any model.
    """
    if not root.is_dir() or not _DIGITS.fullmatch(root.name):
        raise ConfigError(
            f"-m: {root} is not the folder of a dump's time; with a folder of rule files give {_LAYOUT.split('/')[0]} "
            f"of {_LAYOUT}, or name one JSON file with -f"
        )
    graphs = _graphs(rules)
    dumped = list(_dumped(root))
    if not dumped:
        raise ConfigError(f"-m: {root} holds no {_LAYOUT.split('/', 1)[1]} with files; is it the right folder?")
    jobs, notes, met = [], [], set()
    for one in dumped:
        graph, note = _graph_of(one.model, graphs)
        if graph is None:
            notes.append(f"{one.path}: no rule file in {rules} names the model {one.model}; it is not compared")
            continue
        notes += [note] if note else []
        met.add(graph)
        name = f"{one.device}_{one.model}_{one.step}"
        jobs.append(Job(one.path, graphs[graph], name, f"{one.device}_{one.model}_{one.model_id}_{one.step}"))
    notes += [f"{graphs[graph]}: nothing was dumped of {graph}" for graph in graphs if graph not in met]
    if not jobs:
        raise ConfigError(
            f"no model below {root} ({_some(one.model for one in dumped)}) is named by a rule file in {rules} "
            f"({_some(graphs)})"
        )
    return tuple(jobs), tuple(dict.fromkeys(notes))


def _graphs(rules: Path) -> dict[str, Path]:
    """Return the rule file of each graph by its name."""
    found: dict[str, Path] = {}
    for path in sorted(rules.glob("*.json")):
        data = read_user_file(path, MAX_BYTES, want="give a folder of the JSON of compiled models")
        for number, graph in enumerate(need(document(data, str(path)), "graph", list, str(path))):
            place = f"{path}: graph[{number}]"
            name = str(need(checked(graph, dict, place, "it"), "name", str, place))
            if found.setdefault(name, path) != path:
                raise ConfigError(f"-f: {found[name]} and {path} both name the graph {name}; take one away")
    if not found:
        raise ConfigError(f"-f: there is no rule file (*.json) with a named graph in {rules}")
    return found


def _dumped(root: Path) -> Iterator[_Dumped]:
    for device in _folders(root):
        for model in _folders(device):
            for model_id in _folders(model):
                steps = [step for step in _folders(model_id) if _DIGITS.fullmatch(step.name)]
                if steps:
                    # By number: as texts, step 9 would come after step 10.
                    last = max(steps, key=lambda step: int(step.name))
                    yield _Dumped(device.name, model.name, model_id.name, last.name, last)


def _folders(path: Path) -> list[Path]:
    return sorted(one for one in path.iterdir() if one.is_dir())


def _graph_of(model: str, graphs: Mapping[str, Path]) -> tuple[str | None, str]:
    """Return the graph of a dumped model, and a note if it has another name."""
    if model in graphs:
        return model, ""
    numbers = _DIGITS.findall(model)
    found = {graph: _DIGITS.findall(graph) for graph in graphs}
    alike = [graph for graph in graphs if len(numbers) == len(found[graph]) == 2 and numbers[1] == found[graph][1]]
    if len(alike) != 1:
        return None, ""
    return alike[0], f"{model} is compared by the rules of {alike[0]}, which was compiled at another time"


def _some(names: Iterable[str]) -> str:
    listed = list(dict.fromkeys(names))
    more = len(listed) - _MOST_LISTED
    return ", ".join(listed[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
