"""Runs two decoders on the same prompts, step by step, and writes what each says as a dump.

A decoder is a generator function: it takes the ids of prompts and which of them are no padding, yields the logits of
the next token, and is sent the ids that were chosen of them:

    def decode(ids, mask):                      # (batch, length) of int64 and bool
        logits, cache = model(ids, mask)
        while True:
            ids = yield logits                  # yields (batch, vocabulary), gets (batch,)
            logits, cache = model(ids[:, None], cache=cache)

A mixture of experts yields ``{"logits": logits, "routers": routers, "experts": 2}``: of each router, in their order or
by name, the values of all experts, and how many of the largest it takes, or which. Of several tokens the last counts.

Forced, both sides go on with the tokens of the reference, so that each step is compared after the same text. Free, each
goes on with its own, and only what comes before the first token that differs can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.programs.functions import FAILURES, raised
from pytest_msdump.capabilities.record.writer import DumpWriter
from pytest_msdump.core.dtypes.arrays import RawArray, as_array
from pytest_msdump.core.dtypes.decode import bfloat16_values
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.storage.files import read_user_file

Ids = npt.NDArray[np.int64]
Decoder: TypeAlias = Callable[[Ids, npt.NDArray[np.bool_]], Generator[Any, Ids, None]]

_LARGEST_PROMPTS_BYTES = 2**26
_WANT = "give a JSON list of prompts, each a list of token ids"
_WANT_ROUTERS = "yield as routers floats whose last axis is the experts, and as experts how many each takes, or which"
FLOATS = ("float64", "float32", "float16", "bfloat16")


class Said(NamedTuple):
    """What a decoder says after one prompt: the logits of each step, and the ids that it chose of them.

    Logits of bfloat16 are their bits, (steps, vocabulary) of uint16. `routers` are by name, with the values of experts
    for logits, and the experts for ids.
    """

    logits: npt.NDArray[Any]
    ids: Ids
    dtype: str
    routers: Mapping[str, Said] = MappingProxyType({})

    def first(self, steps: int) -> Said:
        """Return what it says in the first steps."""
        routers = {name: one.first(steps) for name, one in self.routers.items()}
        return Said(self.logits[:steps], self.ids[:steps], self.dtype, routers)


def read_prompts(path: Path) -> list[list[int]]:
    """Read prompts from a JSON file; ConfigError where it holds something else."""
    raw = read_user_file(path, _LARGEST_PROMPTS_BYTES, want=_WANT)
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: is not JSON: {error}; {_WANT}") from error
    return checked_prompts(found, str(path))


def checked_prompts(prompts: Any, name: str) -> list[list[int]]:
    """Return prompts as lists of ids; ConfigError names the first that is none."""
    if not isinstance(prompts, (list, tuple)) or not prompts:
        raise ConfigError(f"{name}: holds no prompts; {_WANT}")
    for number, prompt in enumerate(prompts):
        ids = list(prompt) if isinstance(prompt, (list, tuple, np.ndarray)) else []
        if not ids or any(isinstance(one, bool) or not isinstance(one, (int, np.integer)) or one < 0 for one in ids):
            raise ConfigError(f"{name}: prompt {number} is not a list of token ids; {_WANT}")
    return [[int(one) for one in prompt] for prompt in prompts]


def said_alone(
    decoder: Decoder, prompts: Sequence[Sequence[int]], steps: int, name: str, forced: Sequence[Ids] | None = None
) -> list[Said]:
    """Run a decoder on each prompt by itself; `forced` are the tokens that it goes on with."""
    return [
        said_in_batch(decoder, [prompt], steps, name, None if forced is None else [forced[number]])[0]
        for number, prompt in enumerate(prompts)
    ]


def said_in_batch(
    decoder: Decoder, prompts: Sequence[Sequence[int]], steps: int, name: str, forced: Sequence[Ids] | None = None
) -> list[Said]:
    """Run a decoder on all prompts at once, padded on the left with id 0."""
    length = max(map(len, prompts))
    ids = np.zeros((len(prompts), length), np.int64)
    mask = np.zeros(ids.shape, np.bool_)
    for row, prompt in enumerate(prompts):
        ids[row, length - len(prompt) :] = prompt
        mask[row, length - len(prompt) :] = True
    said: list[Said] = []
    running: Any = None

    def advance() -> Any:
        """Return what the decoder yields next; what it raises is one line."""
        nonlocal running
        try:
            if running is None:
                running = decoder(ids, mask)
                if not hasattr(running, "send"):
                    raise ConfigError(
                        f"{name}: returned {type(running).__name__}; write a generator that yields logits"
                    )
                return next(running)
            step = len(said) - 1
            return running.send(said[-1].ids if forced is None else np.array([each[step] for each in forced]))
        except ConfigError:
            raise
        except StopIteration:
            raise ConfigError(
                f"{name}: ended after {len(said)} of {steps} steps; yield in a loop without end"
            ) from None
        except FAILURES as error:
            raise ConfigError(f"{name}: {raised(error)}; mend it") from error

    for step in range(steps):
        said.append(_step(advance(), len(prompts), name, step))
        kinds = [
            {what: f"{each.dtype} {each.logits.shape}" for what, each in {"logits": one, **one.routers}.items()}
            for one in (said[0], said[-1])
        ]
        if kinds[0] != kinds[1]:
            what = next(what for what in {**kinds[0], **kinds[1]} if kinds[0].get(what) != kinds[1].get(what))
            one, other = (kind.get(what, "nothing") for kind in kinds)
            raise ConfigError(
                f"{name}: yielded {what} of {one} at step 0, of {other} at step {step}; yield the same in each"
            )
    running.close()
    return [_after(row, said) for row in range(len(prompts))]


def _after(row: int, steps: Sequence[Said]) -> Said:
    """Return what steps of all prompts say after one of them."""
    routers = {name: _after(row, [one.routers[name] for one in steps]) for name in steps[0].routers}
    logits, ids = (np.array([getattr(one, name)[row] for one in steps]) for name in ("logits", "ids"))
    return Said(logits, ids, steps[0].dtype, routers)


def _step(found: Any, count: int, name: str, step: int) -> Said:
    """Return what one step says of all prompts."""
    given = found if isinstance(found, Mapping) else {"logits": found}
    logits = _raw(given.get("logits"))
    if logits.dtype not in FLOATS or len(logits.shape) != 2 or logits.shape[0] != count or not logits.shape[1]:
        raise ConfigError(
            f"{name}: yielded {logits.dtype} {tuple(logits.shape)} at step {step}; yield the logits of the next token, "
            f"floats of shape ({count}, vocabulary)"
        )
    routers, experts = _named(given.get("routers")), given.get("experts")
    experts = dict.fromkeys(routers, experts) if isinstance(experts, int) else _named(experts)
    said = {}
    for what, values in routers.items():
        one = _routed(_raw(values), experts.get(what), count)
        if one is None:
            raise ConfigError(f"{name}: yielded no router {what} at step {step}; {_WANT_ROUTERS}")
        said[what] = one
    return Said(np.asarray(logits.data), _values(logits).argmax(-1), logits.dtype, said)


def _named(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return {str(name): one for name, one in given.items()}
    return {f"layer_{number}": one for number, one in enumerate(() if given is None else given)}


def _routed(values: RawArray, experts: Any, count: int) -> Said | None:
    """Return values and ids of experts of each prompt's last token; ``None`` where these are none."""
    width = values.shape[-1] if len(values.shape) > 1 else 0
    if values.dtype not in FLOATS or not width or prod(values.shape) % (count * width):
        return None
    data = np.asarray(values.data).reshape(count, -1, width)[:, -1]
    if isinstance(experts, int):
        doubles = _values(RawArray(data, data.shape, values.dtype))
        ids = np.argsort(-doubles, kind="stable")[:, : experts if 0 < experts <= width else 0]
    else:
        ids = np.asarray(as_array(experts))
        if not ids.size or ids.ndim < 2 or ids.dtype.kind not in "iu" or ids.size % (count * ids.shape[-1]):
            return None
        ids = ids.reshape(count, -1, ids.shape[-1])[:, -1].astype(np.int64)
    return Said(data, ids, values.dtype) if ids.size and ids.min() >= 0 and ids.max() < width else None


def _raw(found: Any) -> RawArray:
    value = as_array(found)
    if isinstance(value, RawArray):
        return value
    array = np.asarray(value)
    return RawArray(array, array.shape, array.dtype.name)


def _values(logits: RawArray) -> npt.NDArray[Any]:
    return bfloat16_values(logits.data.view("<u2")) if logits.dtype == "bfloat16" else np.asarray(logits.data)


def write_side(directory: Path, said: Mapping[str, Sequence[Said]], routers: Iterable[str] = ()) -> None:
    """Write what a side says as a dump: ``prompt_0.logits`` and ``prompt_0.ids``, and so on.

    Of each of the `routers` ``prompt_0.NAME.router`` and ``prompt_0.NAME.experts`` come before these.
    """
    with DumpWriter(directory) as writer:
        for kind, prompts in said.items():
            for number, one in enumerate(prompts):
                prompt = f"{kind}prompt_{number}"
                for name in routers:
                    writer.write(f"{prompt}.{name}.router", _written(one.routers[name]))
                    writer.write(f"{prompt}.{name}.experts", one.routers[name].ids, op_type="TopK")
                writer.write(f"{prompt}.logits", _written(one))
                writer.write(f"{prompt}.ids", one.ids, op_type="ArgMax")


def _written(one: Said) -> Any:
    return RawArray(one.logits, one.logits.shape, one.dtype) if one.dtype == "bfloat16" else one.logits


class OtherToken(NamedTuple):
    """The first token that differs: its step, its ids, and how far apart the right's logits of both are."""

    step: int
    left: int
    right: int
    margin: float


def other_token(left: Said, right: Said) -> OtherToken | None:
    """Return the first token that differs; ``None`` where all agree.

    >>> one, other = (Said(np.eye(3), np.array(ids), "float64") for ids in ([0, 1, 0], [0, 1, 2]))
    >>> other_token(one, other)
    OtherToken(step=2, left=0, right=2, margin=1.0)
    """
    differing = np.flatnonzero(left.ids != right.ids)
    if not len(differing):
        return None
    step = int(differing[0])
    ours, theirs = int(left.ids[step]), int(right.ids[step])
    values = _values(RawArray(right.logits[step], right.logits[step].shape, right.dtype)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        margin = abs(values[theirs] - values[ours]) if ours < len(values) else np.inf
    return OtherToken(step, ours, theirs, float(margin))


def common_part(left: Said, right: Said) -> tuple[Said, Said]:
    """Return what two free runs have in common: up to the first token that differs, and with it."""
    differing = np.flatnonzero(left.ids != right.ids)
    steps = int(differing[0]) + 1 if len(differing) else len(left.ids)
    return left.first(steps), right.first(steps)
