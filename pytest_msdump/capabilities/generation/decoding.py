"""Runs two decoders on the same prompts, step by step, and writes what each says as a dump.

A decoder is a generator function: it takes the ids of prompts and which of them are no padding, yields the logits of
the next token, and is sent the ids that were chosen of them:

    def decode(ids, mask):                      # (batch, length) of int64 and bool
        logits, cache = model(ids, mask)
        while True:
            ids = yield logits                  # yields (batch, vocabulary), gets (batch,)
            logits, cache = model(ids[:, None], cache=cache)

Forced, both sides go on with the tokens of the reference, so that each step is compared after the same text. Free, each
goes on with its own, and only what comes before the first token that differs can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
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
FLOATS = ("float64", "float32", "float16", "bfloat16")


class Said(NamedTuple):
    """What a decoder says after one prompt: the logits of each step, and the ids that it chose of them.

    Logits of bfloat16 are their bits, (steps, vocabulary) of uint16.
    """

    logits: npt.NDArray[Any]
    ids: Ids
    dtype: str

    def first(self, steps: int) -> Said:
        """Return what it says in the first steps."""
        return self._replace(logits=self.logits[:steps], ids=self.ids[:steps])


def read_prompts(path: Path) -> list[list[int]]:
    """Read prompts from a JSON file; ConfigError where it holds something else."""
    try:
        found = json.loads(read_user_file(path, _LARGEST_PROMPTS_BYTES, want=_WANT))
    except ConfigError:
        raise
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
        _decoded(decoder, [prompt], steps, name, None if forced is None else [forced[number]])[0]
        for number, prompt in enumerate(prompts)
    ]


def said_in_batch(
    decoder: Decoder, prompts: Sequence[Sequence[int]], steps: int, name: str, forced: Sequence[Ids] | None = None
) -> list[Said]:
    """Run a decoder on all prompts at once, padded on the left with id 0."""
    return _decoded(decoder, prompts, steps, name, forced)


def _decoded(
    decoder: Decoder, prompts: Sequence[Sequence[int]], steps: int, name: str, forced: Sequence[Ids] | None
) -> list[Said]:
    length = max(map(len, prompts))
    ids = np.zeros((len(prompts), length), np.int64)
    mask = np.zeros(ids.shape, np.bool_)
    for row, prompt in enumerate(prompts):
        ids[row, length - len(prompt) :] = prompt
        mask[row, length - len(prompt) :] = True
    logits: list[RawArray] = []
    chosen: list[Ids] = []
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
            step = len(chosen) - 1
            return running.send(chosen[-1] if forced is None else np.array([each[step] for each in forced]))
        except ConfigError:
            raise
        except StopIteration:
            said = f"ended after {len(logits)} of {steps} steps; yield in a loop without end"
            raise ConfigError(f"{name}: {said}") from None
        except FAILURES as error:
            raise ConfigError(f"{name}: {raised(error)}; mend it") from error

    for step in range(steps):
        logits.append(_checked(advance(), len(prompts), name, step))
        if (logits[-1].dtype, logits[-1].shape) != (logits[0].dtype, logits[0].shape):
            one, other = (f"{each.dtype} {tuple(each.shape)}" for each in (logits[0], logits[-1]))
            raise ConfigError(f"{name}: yielded {one} at step 0 and {other} at step {step}; yield the same in each")
        chosen.append(_values(logits[-1]).argmax(-1))
    running.close()
    return [
        Said(np.stack([one.data[row] for one in logits]), np.array([one[row] for one in chosen]), logits[0].dtype)
        for row in range(len(prompts))
    ]


def _checked(found: Any, count: int, name: str, step: int) -> RawArray:
    value = as_array(found)
    if not isinstance(value, RawArray):
        array = np.asarray(value)
        value = RawArray(array, array.shape, array.dtype.name)
    logits: RawArray = value
    if logits.dtype not in FLOATS or len(logits.shape) != 2 or logits.shape[0] != count or not logits.shape[1]:
        raise ConfigError(
            f"{name}: yielded {logits.dtype} {tuple(logits.shape)} at step {step}; yield the logits of the next token, "
            f"floats of shape ({count}, vocabulary)"
        )
    return logits


def _values(logits: RawArray) -> npt.NDArray[Any]:
    return bfloat16_values(logits.data.view("<u2")) if logits.dtype == "bfloat16" else np.asarray(logits.data)


def write_side(directory: Path, said: Mapping[str, Sequence[Said]]) -> None:
    """Write what a side says as a dump: ``prompt_0.logits`` and ``prompt_0.ids``, and so on."""
    with DumpWriter(directory) as writer:
        for kind, prompts in said.items():
            for prompt, one in enumerate(prompts):
                logits = RawArray(one.logits, one.logits.shape, one.dtype) if one.dtype == "bfloat16" else one.logits
                writer.write(f"{kind}prompt_{prompt}.logits", logits)
                writer.write(f"{kind}prompt_{prompt}.ids", one.ids, op_type="ArgMax")


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
