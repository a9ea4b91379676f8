"""One entry of an overflow dump: which unit of the device saw an overflow, in which task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_msdump.facts.overflow import ABSENT, AI_CORE_BITS, ATOMIC_CODES

# Units whose status is the bit mask of a core.
_CORES = frozenset({"AI Core", "AIC", "AIV"})


@dataclass(frozen=True, slots=True)
class OverflowEntry:
    """What one unit of the device reported.

    `unit` is ``"AIC"``, ``"AIV"``, ``"AICPU"``, ``"SDMA"``, or of older devices ``"AI Core"``, ``"L2 Atomic Add"``,
    ``"DHA Atomic Add"``. A dump file's name has task and stream, too. 0 is a context or thread like any other. A
    `status` of zeros: nothing overflowed. `fields` is everything else that was there, by the vendor's names.
    """

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
    def words(self) -> str:
        """The status as a sentence: the meaning of its bits, or the number where it is unknown.

        >>> OverflowEntry("AI Core", 12, 3, (272,)).words
        'status 272: integer addition, subtraction or multiplication overflows; conversion to float16 overflows'
        >>> OverflowEntry("L2 Atomic Add", 12, 3, (2,)).words, OverflowEntry("DHA Atomic Add", 12, 3, (1,)).words
        ('status 2: underflow', 'status 1')
        """
        number = ", ".join(map(str, self.status))
        if len(self.status) == 1 and self.status[0] in ATOMIC_CODES.get(self.unit, {}):
            return f"status {number}: {ATOMIC_CODES[self.unit][self.status[0]]}"
        if self.unit not in _CORES or len(self.status) != 1:
            return f"status {number}"
        known = [text for bit, text in AI_CORE_BITS.items() if self.status[0] & bit]
        unknown = self.status[0] & ~sum(AI_CORE_BITS)
        rest = [f"unknown bits {unknown:#x}"] if unknown else []
        return f"status {number}" + (f": {'; '.join([*known, *rest])}" if known or rest else "")

    @property
    def sentence(self) -> str:
        """Unit, task, stream and status.

        >>> OverflowEntry("SDMA", 12, 3, (1,)).sentence
        'SDMA reports task 12, stream 3: status 1'
        """
        return f"{self.unit} reports task {self.task_id}, stream {self.stream_id}: {self.words}"


def present(number: int) -> int | None:
    """Return a context's or thread's number; ``None`` for the number that means none."""
    return None if number == ABSENT else number
