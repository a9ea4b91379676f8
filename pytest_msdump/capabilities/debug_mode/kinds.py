"""JSON files beside dumps that are no dump: what each is, and what takes it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_msdump.core.escape import shell_word
from pytest_msdump.core.model.describe import listed

_EXPLAIN = "see msdump config explain {file}"
_FOLDER = "give the folder of the dump, {folder}"
_OF_MINDSPORE = "a dump configuration of MindSpore"
_MSPROBE = "part of a dump of msprobe"

# Keys that a kind has, what it is, and what to do with it; the first row that fits counts.
_KINDS = (
    *(
        ((f"{name}_dump_settings",), "a dump configuration of MindSpore", _EXPLAIN)
        for name in ("common", "e2e", "async")
    ),
    (("dump",), "a dump configuration of CANN (acl.json)", _EXPLAIN),
    (("task", "data"), _MSPROBE, _FOLDER),
    (("task", "dump_path"), "a configuration of msprobe", "give the folder that its dump_path names"),
    (("schema_version", "counts", "tensors"), "the result of a comparison", "judge it again: msdump check {file}"),
    (("schema_version", "renamed"), "what msdump rename did", "take it back: msdump rename --undo {file}"),
    (("schema_version", "tensors"), "the manifest of a recording", _FOLDER),
    (("schema", "metric_version", "m"), "a limits file", "use it: msdump compare LEFT RIGHT --limits {file}"),
    (("graph",), "a compiled model, or rules of AMCT", "msdump compare takes it: --fusion or --quant-fusion {file}"),
    (("parallel_layout_item",), "a parallel strategy of MindSpore", "name it in a suite file, under [msdump.sharding]"),
    (("server_list",), "a rank table of HCCL", "no comparison needs it: give the dump"),
    (("device_target", "ms_version"), "what a run of MindSpore says of itself", _FOLDER),
    (("AI Core",), "overflows that a device reported", "see msdump overflow {folder}"),
    (("weight_map",), "an index of safetensors files", "give one of these files"),
)
# By name alone: their keys are those of the network.
_NAMED = {"stack.json": (_MSPROBE, _FOLDER), "construct.json": (_MSPROBE, _FOLDER)}
_ARGUMENTS = re.compile(r"[^.]+\..+\.json", re.DOTALL)
_MOST_SHOWN = 8


def described(path: Path, values: Mapping[str, Any]) -> str:
    """Say what a JSON object that is no dump is, and what to do with it, as the end of a sentence about the file."""
    keys = values.keys()
    found = _NAMED.get(path.name) or next((row[1:] for row in _KINDS if keys >= set(row[0])), None)
    if found is not None:
        what, advice = found
        return f"is {what}; {advice.format(file=shell_word(str(path)), folder=shell_word(str(path.parent)))}"
    if _ARGUMENTS.fullmatch(path.name) and not any(isinstance(value, dict) for value in values.values()):
        shown = listed([f"{name} = {value}" for name, value in values.items()], _MOST_SHOWN)
        return f"has arguments of an operator: {shown}; msdump inspect shows them with a tensor of it"
    return "is JSON of no kind that is known here; give a dump, or a log that DebugMode.save_logs of PyTorch 2.14 wrote"
