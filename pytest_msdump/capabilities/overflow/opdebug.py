"""Overflow records: the files of a dump's overflow check, two binary forms, and two forms of JSON made of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_msdump.core.dumps.file_names import OpdebugName, parse_opdebug
from pytest_msdump.core.dumps.listing import walk
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.storage.files import read_regular
from pytest_msdump.core.text import Message, Parameter, say
from pytest_msdump.dumps.ascend_file import open_dump_file

# One entry of an overflow dump: which unit of the device saw an overflow, in which task.

# Overflow dumps (``Opdebug.Node_OpDebug.…``): their fields by unit, and the meaning of status bits.
#
# References
# ----------
# Ascend "Accuracy Debugging Tool Guide", parsing overflow and underflow data; MindSpore "Dump" documentation, overflow
# detection. The newer form begins with a magic number; the older one is always 2048 bytes.

MAGIC = 0x5A5A5A5A

# The number of a context or thread that there is none of.
ABSENT = 65535

ACC_TYPES: Mapping[int, str] = {0: "AIC", 1: "AIV", 2: "AICPU", 3: "SDMA"}

_IDS = ("model_id", "stream_id", "task_id", "task_type", "context_id")
_CORE = (*_IDS, "thread_id", "pc_start", "para_base", "core_id", "block_id", "status")

# Unit → its fields, 64 bits each, in their order.
NEW_FIELDS: Mapping[str, tuple[str, ...]] = {
    "AIC": _CORE,
    "AIV": _CORE,
    "AICPU": (*_IDS, "cpu_id", "thread_id", "status"),
    "SDMA": (*_IDS, "thread_id", "src_addr", "dst_addr", "channel_id", "status"),
}

# By unit and version of the record: how many numbers its status has; one if it is not listed.
STATUS_COUNT: Mapping[tuple[str, int], int] = {("AIC", 1): 4, ("AIV", 1): 4}

SHOWN_AS_HEX = frozenset({"magic", "pc_start", "para_base", "src_addr", "dst_addr", "kernel_code"})

OLD_BYTES = 2048
_OLD = ("model_id", "stream_id", "task_id", "task_type", "pc_start", "para_base")

# Unit → where its fields begin in the 2048 bytes.
OLD_FIELDS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "DHA Atomic Add": (0, _OLD),
    "L2 Atomic Add": (128, _OLD),
    "AI Core": (256, _OLD),
}
# Unit → where its status block begins, and the fields of that block.
OLD_STATUS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "DHA Atomic Add": (512, ("status",)),
    "L2 Atomic Add": (768, ("status",)),
    "AI Core": (1024, ("kernel_code", "block_idx", "status")),
}

# Bits of a core's status, and the code of what each means; several can be set.
AI_CORE_BITS: Mapping[int, str] = {
    0x8: "core_negation",
    0x10: "core_integer",
    0x20: "core_floating",
    0x80: "core_unsigned",
    0x100: "core_float16",
    0x400: "core_cube",
}

# Status of atomic additions by unit: any number above 0 is an overflow.
_ATOMIC = ("atomic_overflow", "atomic_underflow", "atomic_source", "atomic_destination", "atomic_both")
ATOMIC_CODES: Mapping[str, Mapping[int, str]] = {
    "DHA Atomic Add": dict(enumerate(_ATOMIC, 0x9)),
    "L2 Atomic Add": dict(enumerate(_ATOMIC, 0x1)),
}


# Units whose status is the bit mask of a core.
_CORES = frozenset({"AI Core", "AIC", "AIV"})


@dataclass(frozen=True, slots=True)
class OverflowEntry:
    """What one unit of the device reported."""

    unit: str
    task_id: int
    stream_id: int
    status: tuple[int, ...]
    context_id: int | None = None
    thread_id: int | None = None
    fields: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_overflow(self) -> bool:
        """Whether the status says that something overflowed."""
        return any(self.status)

    @property
    def words(self) -> Message:
        """The status as a sentence: the meaning of its bits, or the number where it is unknown.

        >>> say(OverflowEntry("AI Core", 12, 3, (272,)).words)
        'status 272: integer addition, subtraction or multiplication overflows; conversion to float16 overflows'
        >>> say(OverflowEntry("L2 Atomic Add", 12, 3, (2,)).words)
        'status 2: underflow'
        >>> say(OverflowEntry("DHA Atomic Add", 12, 3, (1,)).words)
        'status 1'
        """
        status = Message("device_status", {"numbers": ", ".join(map(str, self.status))})
        if len(self.status) != 1:
            return status
        meanings: list[Parameter] = []
        if code := ATOMIC_CODES.get(self.unit, {}).get(self.status[0]):
            meanings.append(Message(code))
        elif self.unit in _CORES:
            meanings += [Message(code) for bit, code in AI_CORE_BITS.items() if self.status[0] & bit]
            if unknown := self.status[0] & ~sum(AI_CORE_BITS):
                meanings.append(Message("device_bits", {"bits": f"{unknown:#x}"}))
        text = Message("clauses", {"parts": tuple(meanings)})
        return Message("after_label", {"label": status, "text": text}) if meanings else status

    @property
    def message(self) -> Message:
        """Unit, task, stream and status."""
        about: dict[str, Parameter] = {"unit": self.unit, "task": self.task_id, "stream": self.stream_id}
        return Message("device_reports", {**about, "words": self.words})

    @property
    def sentence(self) -> str:
        """The message in English, as results.json has it.

        >>> OverflowEntry("SDMA", 12, 3, (1,)).sentence
        'SDMA reports task 12, stream 3: status 1'
        """
        return say(self.message)


def present(number: int) -> int | None:
    """Return a context's or thread's number; ``None`` for the number that means none."""
    return None if number == ABSENT else number


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
