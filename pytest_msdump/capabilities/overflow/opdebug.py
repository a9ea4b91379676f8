"""Overflow records: the files of a dump's overflow check, two binary forms, and two forms of JSON made of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.ascend.dump_file import open_dump_file
from pytest_msdump.capabilities.overflow.chunks import (
    ACC_TYPES,
    MAGIC,
    NEW_FIELDS,
    OLD_BYTES,
    OLD_FIELDS,
    OLD_STATUS,
    SHOWN_AS_HEX,
    STATUS_COUNT,
    OverflowEntry,
    present,
)
from pytest_msdump.core.dumps.file_names import OpdebugName, parse_opdebug
from pytest_msdump.core.dumps.listing import walk
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.storage.files import read_regular

_HEAD = struct.Struct("<6I")
_WORD = 8
_LONGEST_UNIT = 40
_HEAD_KEYS = ("magic", "version", "valid", "acc_type", "rsv", "data_len")
# A record has at most 2048 bytes; the JSON of one some 2000.
_MOST_BYTES = 2**16


@dataclass(frozen=True)
class OverflowFile:
    """One overflow file; `name` is what its name says."""

    path: Path
    name: OpdebugName
    entries: tuple[OverflowEntry, ...] = ()
    documents: dict[int, dict[str, Any]] = field(default_factory=dict)
    problem: str = ""


def overflow_files(root: Path) -> tuple[OverflowFile, ...]:
    """Return every overflow file at or below `root`, by time; DumpNotFoundError where it cannot be listed."""
    folders = ((each.below(root), each.files) for each in walk(root)) if root.is_dir() else [(root.parent, [root.name])]
    found = [
        read_overflow_file(folder / name, parsed)
        for folder, names in folders
        for name in names
        if (parsed := parse_opdebug(name))
    ]
    return tuple(sorted(found, key=lambda file: (file.name.timestamp, file.path.as_posix())))


def read_overflow_file(path: Path, name: OpdebugName) -> OverflowFile:
    """Read one overflow file, binary or JSON; what is wrong with it becomes its `problem`."""
    try:
        documents = {0: _read_json(path)} if name.is_json else _read_records(path)
        entries = tuple(
            entry for document in documents.values() for entry in entries_of_json(document, where=str(path))
        )
    except TensorFileError as error:
        return OverflowFile(path, name, problem=str(error))
    return OverflowFile(path, name, entries, documents)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(read_regular(path, _MOST_BYTES))
    except OSError as error:
        raise TensorFileError(f"{path}: cannot be read: {error.strerror}; is it an overflow record?") from error
    except (ValueError, RecursionError) as error:
        raise TensorFileError(f"{path}: not JSON: {error}") from error


def _read_records(path: Path) -> dict[int, dict[str, Any]]:
    dump = open_dump_file(path)
    with closing(dump.file):
        outputs = [tensor for tensor in dump.header.tensors if tensor.io == "output"]
        if not outputs:
            raise TensorFileError(f"{path}: an overflow dump without an output")
        found = {}
        for tensor in outputs:
            if tensor.size > _MOST_BYTES or tensor.start + tensor.size > dump.file.size:
                raise TensorFileError(
                    f"{path}: its record would have {tensor.size} bytes, of which the file does not have all"
                )
            found[tensor.slot] = record_as_json(dump.source.peek(tensor.start, tensor.size), where=str(path))
    return found


def record_as_json(record: bytes, *, where: str) -> dict[str, Any]:
    """Return a binary record, which is output 0 of the dump, with the keys and the order of the vendor's JSON."""
    if len(record) >= _HEAD.size and int.from_bytes(record[:4], "little") == MAGIC:
        return _new(record, where)
    if len(record) == OLD_BYTES:
        return {unit: _old(record, unit) for unit in OLD_FIELDS}
    raise TensorFileError(
        f"{where}: {len(record)} bytes are not an overflow record: it begins with {MAGIC:#x} or has {OLD_BYTES} bytes"
    )


def entries_of_json(document: object, *, where: str) -> tuple[OverflowEntry, ...]:
    """Return what each unit reported, from either form of the JSON."""
    if not isinstance(document, Mapping):
        raise TensorFileError(f"{where}: not an overflow record: a JSON object was expected")
    if "acc_list" in document:
        listed = document["acc_list"]
        return tuple(_entry_of_new(one, where) for one in (listed if isinstance(listed, list) else [listed]))
    entries = tuple(_entry(unit, document[unit], where) for unit in OLD_FIELDS if unit in document)
    if not entries:
        raise TensorFileError(f"{where}: not an overflow record: it has neither 'acc_list' nor {', '.join(OLD_FIELDS)}")
    return entries


def _new(record: bytes, where: str) -> dict[str, Any]:
    head = dict(zip(_HEAD_KEYS, _HEAD.unpack_from(record), strict=True))
    unit = ACC_TYPES.get(head["acc_type"])
    if unit is None:
        known = ", ".join(f"{number} {name}" for number, name in ACC_TYPES.items())
        raise TensorFileError(f"{where}: unknown unit {head['acc_type']} in the overflow record; known: {known}")
    words = STATUS_COUNT.get((unit, head["version"]), 1)
    names = NEW_FIELDS[unit]
    numbers = _words(record, _HEAD.size, len(names) - 1 + words, where)
    data: dict[str, Any] = {name: _shown(name, number) for name, number in zip(names, numbers, strict=False)}
    if words > 1:
        data["status"] = list(numbers[-words:])
    return {
        "magic": hex(head["magic"]),
        "version": head["version"],
        "acc_list": {
            "valid": head["valid"],
            "acc_type": unit,
            "rsv": head["rsv"],
            "data_len": head["data_len"],
            "data": data,
        },
    }


def _old(record: bytes, unit: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for start, names in (OLD_FIELDS[unit], OLD_STATUS[unit]):
        numbers = _words(record, start, len(names), unit)
        found |= {name: _shown(name, number) for name, number in zip(names, numbers, strict=True)}
    return found


def _words(record: bytes, start: int, count: int, where: str) -> Sequence[int]:
    if len(record) < start + count * _WORD:
        raise TensorFileError(
            f"{where}: the overflow record has {len(record)} bytes where {start + count * _WORD} are needed"
        )
    return struct.unpack_from(f"<{count}Q", record, start)


def _shown(name: str, number: int) -> int | str:
    return hex(number) if name in SHOWN_AS_HEX else number


def _entry_of_new(one: object, where: str) -> OverflowEntry:
    if not isinstance(one, Mapping) or not isinstance(one.get("acc_type"), str):
        raise TensorFileError(f"{where}: not an overflow record: 'acc_list' lacks 'acc_type'")
    unit = one["acc_type"]
    if len(unit) > _LONGEST_UNIT:
        raise TensorFileError(f"{where}: not an overflow record: '{unit[:_LONGEST_UNIT]}…' is not a unit")
    return _entry(unit, one.get("data"), where)


def _entry(unit: str, data: object, where: str) -> OverflowEntry:
    if not isinstance(data, Mapping):
        raise TensorFileError(f"{where}: not an overflow record: {unit} has no fields")
    status = data.get("status")
    numbers = {name: _number(value, f"{where}: {unit}: {name:.40}") for name, value in data.items() if name != "status"}
    lacking = {"task_id", "stream_id"} - numbers.keys()
    if lacking:
        raise TensorFileError(f"{where}: {unit} lacks {', '.join(sorted(lacking))}")
    statuses = status if isinstance(status, list) else [status]
    return OverflowEntry(
        unit=unit,
        task_id=numbers.pop("task_id"),
        stream_id=numbers.pop("stream_id"),
        status=tuple(_number(value, f"{where}: {unit}: status") for value in statuses),
        context_id=present(numbers["context_id"]) if "context_id" in numbers else None,
        thread_id=present(numbers["thread_id"]) if "thread_id" in numbers else None,
        fields=numbers,
    )


def _number(value: object, where: str) -> int:
    """Return a number, also of the vendor's text of one."""
    if isinstance(value, bool) or not isinstance(value, (int, str)) or (isinstance(value, str) and len(value) > 40):
        raise TensorFileError(f"{where}: not a number: {str(value)[:40]!r}")
    if isinstance(value, int):
        return value
    try:
        return int(value, 0)
    except ValueError:
        raise TensorFileError(f"{where}: not a number: {value[:40]!r}") from None
