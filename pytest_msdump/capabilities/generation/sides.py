"""A side whose decoder runs by itself: a command reads prompts from a file, and writes the logits of each.

It finds the paths of both in its environment. ``MSDUMP_PROMPTS`` is a JSON file: ``prompts`` are lists of ids, after
each of which it chooses so many ``tokens``; it goes on with ``forced``, a list of ids for each prompt, or with its own
where that is null; ``batched`` says whether all prompts run at once, padded on the left. Into the folder
``MSDUMP_LOGITS`` it writes ``prompt_0.logits.npy``, floats of shape (tokens, vocabulary), and so on; bfloat16 as its
bits, of uint16. ``prompt_0.ids.npy`` are the ids that it chose, where these are not of the largest logits.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from pytest_msdump.capabilities.generation.decoding import FLOATS, Decoder, Ids, Said, said_alone, said_in_batch
from pytest_msdump.capabilities.programs.functions import load_function
from pytest_msdump.capabilities.record.process import DEFAULT_TIMEOUT, Ran, checked_timeout, own_folder, run_process
from pytest_msdump.core.dtypes.decode import bfloat16_values
from pytest_msdump.core.dumps.npy import open_npy
from pytest_msdump.core.errors import ConfigError, ProgramError, TensorFileError
from pytest_msdump.core.escape import shell_line
from pytest_msdump.core.model.tensor import TensorSpec

if TYPE_CHECKING:
    from pytest_msdump.core.model.tensor import TensorView

Given: TypeAlias = "Decoder | str | Sequence[str]"

_PROMPTS, _LOGITS = "MSDUMP_PROMPTS", "MSDUMP_LOGITS"


class Question(NamedTuple):
    """What a side is asked: to go on after each prompt, by itself or all in one batch, with `forced` ids or its own."""

    prompts: Sequence[Sequence[int]]
    steps: int
    forced: Sequence[Ids] | None = None
    in_batch: bool = False


class Side(NamedTuple):
    """A decoder, or the words of a command, and what errors call it; `file` is what runs in this process."""

    name: str
    decoder: Decoder | None = None
    words: tuple[str, ...] = ()
    timeout: float = DEFAULT_TIMEOUT
    file: Path | None = None

    def said(self, question: Question) -> list[Said]:
        """Return what it says after each prompt."""
        name = f"{self.name} (all prompts in one batch)" if question.in_batch else self.name
        if self.decoder is None:
            try:
                return _said_by_command(self, name, question)
            except ProgramError as error:
                # Nothing of it was judged.
                raise ConfigError(str(error)) from error
        run = said_in_batch if question.in_batch else said_alone
        return run(self.decoder, question.prompts, question.steps, name, question.forced)


def side_of(given: Given, name: str = "", *, timeout: float = DEFAULT_TIMEOUT) -> Side:
    """Return the side of a function, of a typed ``FILE:FUNCTION``, or of a command, typed or as words."""
    if callable(given):
        return Side(name, given)
    if not isinstance(given, str):
        words = tuple(map(os.fspath, given)) if isinstance(given, Sequence) else ()
    elif _is_function(given):
        return Side(given, load_function(given), file=Path(given.rpartition(":")[0]))
    else:
        try:
            words = tuple(shlex.split(given))
        except ValueError as error:
            raise ConfigError(f"{given!r}: is no command: {error}; close its quotes") from None
    if not words:
        raise ConfigError(f"{given!r} is no decoder; give a function, FILE:FUNCTION, or a command and its arguments")
    return Side(name or shell_line(words), words=words, timeout=checked_timeout(timeout))


def _is_function(text: str) -> bool:
    file, _, wanted = text.rpartition(":")
    # A word without spaces that ends like a file of Python lacks its function. No Path: a command may be very long.
    is_word = not any(map(str.isspace, text))
    return os.path.isfile(file) or (is_word and (text.endswith(".py") or (file != "" and wanted.isidentifier())))  # noqa: PTH113


def _said_by_command(side: Side, name: str, question: Question) -> list[Said]:
    with own_folder() as folder:
        asked, answers = folder / "prompts.json", folder / "logits"
        forced = question.forced
        document = {
            "prompts": question.prompts,
            "tokens": question.steps,
            "forced": None if forced is None else [ids.tolist() for ids in forced],
            "batched": question.in_batch,
        }
        asked.write_text(json.dumps(document), "utf-8")
        answers.mkdir()
        ran = run_process(
            side.words,
            title=name,
            directory=answers,
            timeout=side.timeout,
            environment={**os.environ, _PROMPTS: str(asked), _LOGITS: str(answers)},
            # The end of it is in the message of a run that fails.
            show=lambda _: None,
        )
        return [_answer(ran, number, question.steps) for number in range(len(question.prompts))]


def _answer(ran: Ran, prompt: int, steps: int) -> Said:
    want = f"write floats of shape ({steps}, vocabulary) into the folder that {_LOGITS} names"
    found = _read(ran, f"prompt_{prompt}.logits.npy", partial(_logits, steps=steps), want)
    if found is None:
        ran.fail(f"wrote no prompt_{prompt}.logits.npy; {want}")
    want = f"write {steps} ids of the vocabulary, of int64, or leave the file out"
    found = _read(ran, f"prompt_{prompt}.ids.npy", partial(_chosen, said=found, axes=1), want) or found
    return found._replace(routers=dict(_routers(ran, prompt, steps)))


def _routers(ran: Ran, prompt: int, steps: int) -> Iterator[tuple[str, Said]]:
    start, end = f"prompt_{prompt}.", ".router.npy"
    names = [path.name.removeprefix(start).removesuffix(end) for path in ran.directory.glob(f"{start}*{end}")]
    # layer_10 comes after layer_9.
    for name in sorted(names, key=lambda one: (len(one), one)):
        want = f"write floats of shape ({steps}, experts)"
        values = _read(ran, f"{start}{name}{end}", partial(_logits, steps=steps), want)
        want = f"write int64 of shape ({steps}, experts of a token)"
        chosen = values and _read(ran, f"{start}{name}.experts.npy", partial(_chosen, said=values, axes=2), want)
        if chosen is None:
            ran.fail(f"wrote no {start}{name}.experts.npy; {want}")
        yield name, chosen


def _read(ran: Ran, name: str, take: Callable[[TensorView], Said | None], want: str) -> Said | None:
    """Return what a file says; ``None`` where there is none."""
    path = ran.directory / name
    if not path.exists():
        return None
    try:
        with closing(open_npy(path, TensorSpec())) as view:
            said = take(view)
            shown = f"{view.dtype} {tuple(view.shape)}"
    except (TensorFileError, OSError) as error:
        ran.fail(f"wrote a {name} that cannot be read: {str(error).replace(f'{ran.directory}{os.sep}', '')}")
    if said is None:
        ran.fail(f"wrote {shown} as {name}; {want}")
    return said


def _logits(view: TensorView, *, steps: int) -> Said | None:
    is_bits = view.dtype == "uint16"
    if not (is_bits or view.dtype in FLOATS) or len(view.shape) != 2 or view.shape[0] != steps or not view.size:
        return None
    data = np.asarray(view.read(0, view.size)).reshape(view.shape)
    values = bfloat16_values(data) if is_bits else data
    return Said(data, values.argmax(-1), "bfloat16" if is_bits else view.dtype)


def _chosen(view: TensorView, *, said: Said, axes: int) -> Said | None:
    """Return values with the ids that were chosen of them, of one or of several in each row."""
    if view.dtype not in ("int64", "int32") or len(view.shape) != axes or view.shape[0] != len(said.ids):
        return None
    ids = np.asarray(view.read(0, view.size)).astype(np.int64).reshape(view.shape)
    return said._replace(ids=ids) if ids.size and (ids >= 0).all() and (ids < said.logits.shape[1]).all() else None
