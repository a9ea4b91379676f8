"""A compiled model: its operators in order, its edges, and each tensor's origin in the original model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from pytest_msdump.core.model.tensor import SourceStack, TensorSpec, mangle

__all__ = [
    "ArgumentDifference",
    "Edge",
    "KernelArguments",
    "Operator",
    "OperatorGraph",
    "OriginOutput",
    "SourceStack",
    "differences",
    "file_spelling",
    "joined_spelling",
]

_RUN = re.compile(r"[./\\ :]{2,}")


@lru_cache(maxsize=2**16)
def file_spelling(name: str) -> str:
    r"""Write a name of a model as dump files have it: ``.``, ``/``, ``\``, space and ``:`` become ``_`` each.

    >>> file_spelling("onnx::Conv_12/out")
    'onnx__Conv_12_out'
    """
    return mangle(name).replace(":", "_")


def joined_spelling(name: str) -> str | None:
    """Write a name with one ``_`` for a run of such characters, as some writers do; ``None`` where there is no run.

    >>> joined_spelling("onnx::Conv_12"), joined_spelling("conv__12")
    ('onnx_Conv_12', None)
    """
    # Hardly any name has a run, and two underscores are found much faster.
    if "__" not in file_spelling(name) or not _RUN.search(name):
        return None
    return file_spelling(_RUN.sub("_", name))


@dataclass(frozen=True, slots=True)
class Edge:
    """The source of an input: output `slot` of the operator `producer`, or a weight or network input of that name.

    `occurrence` says which call of the producer it was; ``None`` for the one in the same pass of a loop, or its only
    one. An edge without a name stands for something that was not recorded: what is behind it is not known.
    """

    producer: str
    slot: int
    is_parameter: bool = False
    occurrence: int | None = None


@dataclass(frozen=True, slots=True)
class OriginOutput:
    """What an output was in the original model: which output of which operator; no name where it has no counterpart.

    A negative size in `shape` is unknown. `dtype` is that of the compiled model's output, as its JSON spells it:
    ``"DT_FLOAT16"``.
    """

    name: str = ""
    index: int = 0
    memory_format: str | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a compiled model, or one call of a recorded one.

    `name` is its true name, without the numbers of slices (``_lxslice3``), `id` its number in the model. `inputs` are
    by slot, ``None`` where nothing is connected, or a constant; control edges are left out, since they carry no data.
    In a recorded graph more may follow: further operators that one of the inputs came from, and operators inside of
    this one that made its outputs. `originals` are operators of the original model that are in this one, none where the
    compiler inserted it; with `is_multiop` it is one of several that share several of them. `l1_group` and `l2_group`
    are ids of its fusion groups.

    `host_inputs` and `host_outputs` are by slot what the tensors are in the network (a negative size is unknown;
    ``None`` for what is no tensor and no number), `device_inputs` and `device_outputs` what they are on the device,
    with their `memory_format`. All are empty where the graph's file lacks them. `stacks` are the calls that made it;
    several when it stands for several operators of the program. `attributes` are as the graph's file writes them
    (`dumps.graphs.ir` reads them): two forms of one graph are equal, whichever has more of them.

    `occurrence` is which call it is, of an operator that a recorded graph has several times; `scope` the path of
    modules that it belongs to, joined by dots, where its name does not say it; `inside` the recorded module whose call
    contains this one. With `returns_inner` every tensor that it gave back is one that a call inside of it gave back.
    """

    name: str
    op_type: str
    id: int = 0
    inputs: tuple[Edge | None, ...] = ()
    originals: tuple[str, ...] = ()
    outputs: tuple[OriginOutput, ...] = ()
    is_multiop: bool = False
    l1_group: str = ""
    l2_group: str = ""
    host_inputs: tuple[TensorSpec | None, ...] = ()
    host_outputs: tuple[TensorSpec | None, ...] = ()
    device_inputs: tuple[TensorSpec | None, ...] = ()
    device_outputs: tuple[TensorSpec | None, ...] = ()
    stacks: tuple[SourceStack, ...] = ()
    attributes: str = field(default="", compare=False)
    occurrence: int = 0
    scope: str = ""
    inside: str = ""
    returns_inner: bool = False


@dataclass(frozen=True, slots=True)
class OperatorGraph:
    """All operators of a compiled model, in the order of its file, each name once; or the calls of a recorded model.

    The file's order is the order of execution. `source` is its name as messages show it; `notes` are sentences for the
    header, e.g. that a name was there twice; `parameters` are true names of weights and inputs, where the file lists
    them. `is_final` says whether it is the graph that ran: operators of an earlier one may have been renamed, fused or
    removed since. `is_recorded` says whether a recorder wrote it, with the very names of the dump: in the order in
    which calls ended, and a name as often as it was called.
    """

    operators: tuple[Operator, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    is_final: bool = True
    model: str = ""
    is_recorded: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The operators' true names, in execution order."""
        return tuple(operator.name for operator in self.operators)


# Graphs since 2.0 write the type of a number beside it, older ones and arguments of kernels do not.
_TYPED = re.compile(r"(?:U?I(?:nt)?|B?F(?:loat)?)[0-9]{1,3}\(([^()]*)\)")
_BOOL = re.compile(r"Bool\(([01])\)")
_TRUTH = {"0": "False", "1": "True", "false": "False", "true": "True"}


@dataclass(frozen=True, slots=True)
class KernelArguments:
    """A kernel's arguments by name, as the file `source` writes them; `note` says why they cannot be read."""

    source: str
    values: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


class ArgumentDifference(NamedTuple):
    """A value that two sides do not share: `kind` is "argument" or "attribute"; ``None`` where a side has none."""

    kind: str
    name: str
    left: str | None
    right: str | None


def differences(kind: str, left: Mapping[str, str], right: Mapping[str, str]) -> Iterator[ArgumentDifference]:
    """Yield what differs, by name; how releases write numbers and texts makes no difference."""
    for name in sorted({*left, *right}):
        one, other = left.get(name), right.get(name)
        if one is None or other is None or _plain(one) != _plain(other):
            yield ArgumentDifference(kind, name, one, other)


def _plain(value: str) -> str:
    text = _TYPED.sub(r"\1", _BOOL.sub(lambda match: _TRUTH[match[1]], value.replace('"', "")))
    return _TRUTH.get(text, text) if text in ("true", "false") else "".join(text.split())
