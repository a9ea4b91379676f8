"""Overflow dumps (``Opdebug.Node_OpDebug.…``): their fields by unit, and the meaning of status bits.

References
----------
Ascend "Accuracy Debugging Tool Guide", parsing overflow and underflow data; MindSpore "Dump" documentation, overflow
detection. The newer form begins with a magic number; the older one is always 2048 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

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
