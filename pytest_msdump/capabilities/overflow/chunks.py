"""One entry of an overflow dump: which unit of the device saw an overflow, in which task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_msdump.core.text import Message, Parameter, say

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
