"""Pairs of tensors, and tensors without a partner."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_msdump.core.model.tensor import TensorRef
from pytest_msdump.core.text import Message, say


@dataclass(frozen=True, slots=True)
class Transform:
    """How the right side is brought to the left's shape. Applied in this order: formats, `transpose`, `reshape`.

    A format is the side's axis order for 4-D tensors (``"NHWC"``); brought to NCHW order when the other side's differs.
    `transpose` are axes of the right side, as `numpy.transpose` takes them. With `reshape` only the element counts must
    agree: same values in C order. The left's logical shape, and the order of its axes, is what a rule file says of the
    original model; for undoing its memory format.
    """

    left_format: str | None = None
    right_format: str | None = None
    transpose: tuple[int, ...] | None = None
    reshape: bool = False
    left_logical_shape: tuple[int, ...] | None = None
    left_logical_format: str | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """One tensor of the run under test and its reference.

    `how` is ``"mapped"``, ``"fused"``, ``"name"``, ``"mangled"``, ``"scope"``, ``"graph"`` or ``"file"``; `by` says
    which rule, e.g. ``"msdump.toml [[msdump.map]] #3"``, or the path of the module. `order` is the 0-based place of the
    left operator among all left operators. `note` is shown with the verdict, e.g. that a side has this tensor several
    times.
    `uncompared` counts the further occurrences of this tensor that met no partner, left and right, though they are
    selected. `terms` are the left and the right tensors that a gradient is the sum of, see `comparison.noise_floor`.
    `golden` and `third` are the right tensor in these dumps, see `comparison.three_way`.
    """

    left: TensorRef
    right: TensorRef
    how: str
    by: str = ""
    transform: Transform = Transform()
    order: int = 0
    note: Message | None = None
    uncompared: tuple[int, int] = (0, 0)
    terms: tuple[tuple[TensorRef, ...], tuple[TensorRef, ...]] = ((), ())
    golden: TensorRef | None = None
    third: TensorRef | None = None


# Reasons of right tensors that coverage does not count: the output is another operator's.
UNCOUNTED = frozenset({"passed_on", "returns_inner"})


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A tensor without a partner: on which `side` ("left" or "right"), why, and names that are like its own."""

    side: str
    ref: TensorRef
    why: Message
    candidates: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why, in English."""
        return say(self.why)


@dataclass(frozen=True, slots=True)
class Missing:
    """A requested pair of which at least one side was not dumped. Fails the item `coverage`."""

    left: str
    right: str
    why: Message
    candidates: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """Why, in English."""
        return say(self.why)


@dataclass(frozen=True, slots=True)
class Pairing:
    """All pairs in execution order of the left side, both lists of unmatched tensors, and what is missing.

    `right_total` and `right_paired` count right tensors within the selection, each once. `notes` are sentences for the
    header on how the two sides meet. `lost_outputs` are the outputs of the right's model that are not compared,
    though those of the left are known: the name of each, empty where it has none, and its tensor.
    """

    pairs: tuple[Pair, ...] = ()
    unmatched_left: tuple[Unmatched, ...] = ()
    unmatched_right: tuple[Unmatched, ...] = ()
    missing: tuple[Missing, ...] = ()
    right_total: int = 0
    right_paired: int = 0
    notes: tuple[str, ...] = ()
    lost_outputs: tuple[tuple[str, TensorRef], ...] = ()

    @property
    def coverage(self) -> float:
        """Share of the right tensors that have a partner, 0 to 1; 0 when there are none."""
        return self.right_paired / self.right_total if self.right_total else 0.0
