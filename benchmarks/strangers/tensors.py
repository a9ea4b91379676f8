"""What a run saved: tensors with their names, and which of them are one tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["OUTPUT", "Recording", "Tensor", "label"]

OUTPUT = "output"


class Tensor(NamedTuple):
    """One saved tensor.

    Parameters
    ----------
    path : str
        Module, or parameter, or node of a graph.
    values : numpy.ndarray
        What it held when it was saved.
    slot, call : int
        Which of the module's outputs, and which of its calls, both from 0.
    kind : str
        ``"output"``, ``"gradient"``, ``"parameter"`` or ``"state"`` (of the optimizer, which is named in `path`).
    step : int, optional
        Step of a training.
    origin : str
        `path` in the model without a mistake; empty for what a mistake added.
    identity : tuple
        Equal for tensors that are one: the same bytes in the same order at the same time.
    """

    path: str
    values: Any
    slot: int = 0
    call: int = 0
    kind: str = OUTPUT
    step: int | None = None
    origin: str = ""
    identity: Any = None

    @property
    def label(self) -> str:
        """Its name in the truth, by the model without a mistake; empty for what a mistake added."""
        return label(self.origin, self.slot, self.call, self.kind, self.step) if self.origin else ""


def label(path: str, slot: int = 0, call: int = 0, kind: str = OUTPUT, step: int | None = None) -> str:
    """Spell a tensor: ``PATH:slot@call#step``, slot 0 and call 0 left out, and the kind in front but for outputs."""
    text = path if kind == OUTPUT else f"{kind} {path}"
    text += f":{slot}" if slot else ""
    text += f"@{call}" if call else ""
    return text if step is None else f"{text}#{step}"


@dataclass(frozen=True)
class Recording:
    """What one run saved, in the order in which it was saved; `tree` is a dump of a framework's own, by file."""

    tensors: tuple[Tensor, ...]
    tree: Mapping[str, bytes] | None = None

    def groups(self) -> Iterator[list[Tensor]]:
        """Yield the tensors that are one tensor, together."""
        found: dict[Any, list[Tensor]] = {}
        for number, tensor in enumerate(self.tensors):
            found.setdefault(number if tensor.identity is None else ("same", tensor.identity), []).append(tensor)
        yield from found.values()
