"""One entry of an overflow dump: which unit of the device saw an overflow, in which task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_msdump.capabilities.overflow.status_bits import ABSENT, AI_CORE_BITS, ATOMIC_CODES
from pytest_msdump.core.text import Message, Parameter, say

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
