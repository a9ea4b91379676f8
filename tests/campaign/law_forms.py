"""What is added to a failing comparison: a form of a capability, and how forms are put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from campaign.law_sides import STORES, Comparison, Row
from campaign.trials import NotHereError

Apply = Callable[[Comparison], None]

WHOLE = ("npy", "recorded", "safetensors", "npz")


class Form(NamedTuple):
    """A form of a capability: `apply` adds it before the sides are saved, to comparisons of these `stores` that miss
    their limits by the factor `least` or more.

    `permits` are words of which one must be told, with a factor, where it lets the comparison pass; empty where it may
    not. Else `may` says what else is an answer: the tensor's verdict "warn"; that it passes with "a share" told of what
    was compared; or that it passes "beside" another failure.
    """

    capability: str
    name: str
    apply: Apply
    stores: Sequence[str] = tuple(STORES)
    least: float = 0.0
    permits: tuple[str, ...] = ()
    may: str = ""

    @property
    def title(self) -> str:
        """What it is of what."""
        return f"{self.capability}: {self.name}"

    @property
    def is_honest(self) -> bool:
        """Whether a refusal is no answer."""
        return self.name.startswith("honest") or self.capability == "nothing"


def nothing(_: Comparison) -> None:
    """The comparison alone."""


def settings(**values: Any) -> Apply:
    return lambda case: case.settings.update(values)


def arguments(*given: str) -> Apply:
    """Options of the command; WRONG stands for the failing tensor."""
    return lambda case: case.arguments.extend(one.replace("WRONG", case.wrong) for one in given)


def tables(*lines: str) -> Apply:
    """Lines of the suite file; WRONG stands for the failing tensor."""
    return lambda case: case.tables.extend(line.replace("WRONG", case.wrong) for line in lines)


def together(*all_of: Apply) -> Apply:
    def apply(case: Comparison) -> None:
        for one in all_of:
            one(case)

    return apply


def torn(suffix: str, share: float) -> Apply:
    """Cut the largest file of the left side of this kind."""

    def apply(case: Comparison) -> None:
        def cut() -> None:
            files = [path for path in case.folder("left").rglob(f"*{suffix}") if path.is_file()]
            if not files:
                raise NotHereError
            file = max(files, key=lambda path: path.stat().st_size)
            file.write_bytes(file.read_bytes()[: int(file.stat().st_size * share)])

        case.after.append(cut)

    return apply


def put(**values: Any) -> Callable[[Row], None]:
    return lambda row: row.update(values)
