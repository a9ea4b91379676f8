"""Small text files beside dumped tensors. They are trusted no more than the dump: bounded, and never an error."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_msdump.core.dumps.listing import Folder
from pytest_msdump.core.model.dump import KernelArguments
from pytest_msdump.core.model.tensor import TensorRef, mangle
from pytest_msdump.core.storage.files import read_regular, unique_keys

MAPPING = "mapping.csv"
STATISTICS_FILE = "statistic.csv"

_MAX_MAPPING_BYTES = 2**26
_MAX_JSON_BYTES = 2**20
_MAX_LABEL = 100
_LABELS = ("ms_version", "device_target")
_MOST_ARGUMENTS, _LONGEST_ARGUMENT = 1000, 1000
_LONGEST_NAME_BYTES = 255


def read_text(path: Path, most_bytes: int) -> tuple[str, str]:
    """Return a file's text, or an empty one and the end of a sentence that says why."""
    try:
        return read_regular(path, most_bytes).decode("utf-8-sig"), ""
    except OSError as error:
        return "", f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        return "", "is left out: it is not text"


def parse_object(text: str) -> tuple[dict[str, Any], str]:
    """Return the JSON object that a text holds, or an empty one and the end of a sentence that says why."""
    try:
        values = json.loads(text, object_pairs_hook=unique_keys)
    except (json.JSONDecodeError, RecursionError):
        return {}, "is not JSON"
    except ValueError as error:
        return {}, f"cannot be read: {error}"
    return (values, "") if isinstance(values, dict) else ({}, "is not a JSON object")


def read_mapping(path: Path) -> tuple[Mapping[str, str], str]:
    """Read a ``mapping.csv``, which has the names that were too long for the file system."""
    text, note = read_text(path, _MAX_MAPPING_BYTES)
    originals: dict[str, str] = {}
    ambiguous: set[str] = set()
    for line in text.splitlines():
        new, comma, original = line.strip().partition(",")
        if comma and originals.setdefault(new, original) != original:
            ambiguous.add(new)
    for new in ambiguous:
        del originals[new]
    if ambiguous:
        note = f"gives several names to {min(ambiguous)}"
    return originals, note


def originals_in(root: Path, folder: Folder) -> tuple[Mapping[str, str], Sequence[str]]:
    """Return what `read_mapping` finds in a folder, if it has a mapping, and sentences about what could not be read."""
    if MAPPING not in folder.files:
        return {}, ()
    relative = folder.relative(MAPPING)
    originals, note = read_mapping(root / relative)
    return originals, (f"{relative.as_posix()} {note}",) if note else ()


def read_run_labels(path: Path) -> tuple[Mapping[str, str], str]:
    """Read what a rank's ``config.json`` says of the run, its MindSpore version and device, and what went wrong."""
    text, note = read_text(path, _MAX_JSON_BYTES)
    if note:
        return {}, note
    values, wrong = parse_object(text)
    found = {name: str(values[name])[:_MAX_LABEL] for name in _LABELS if name in values}
    return found, f"{wrong}, so the version of MindSpore is unknown" if wrong else ""


def read_kernel_args(ref: TensorRef) -> KernelArguments | None:
    """Read the arguments beside a tensor, ``OP_TYPE.OP.json``: ``None`` without any, a note if they are unreadable."""
    path = _kernel_args_path(ref)
    if path is None or not path.exists():
        return None
    text, note = read_text(path, _MAX_JSON_BYTES)
    if note:
        return KernelArguments(path.name, note=note)
    values, wrong = parse_object(text)
    if wrong:
        return KernelArguments(path.name, note="is not a JSON object of arguments")
    arguments = list(values.items())[:_MOST_ARGUMENTS]
    return KernelArguments(path.name, {name: _argument(value) for name, value in arguments})


def _kernel_args_path(ref: TensorRef) -> Path | None:
    """Return the file's path. A name from a table may hold slashes; mangled, it cannot lead out of the folder."""
    op = ref.key.op
    if not op.op_type or not op.name:
        return None
    name = f"{mangle(op.op_type)}.{mangle(op.name)}.json"
    is_possible = len(name.encode(errors="replace")) <= _LONGEST_NAME_BYTES and "\0" not in name
    return ref.source.folder / name if is_possible else None


def _argument(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST_ARGUMENT else f"{text[:_LONGEST_ARGUMENT]}…"
