"""From an operator to the lines of the program that made it, and back.

Graph files list the calls that led to an operator. Releases that write ``FILE(LINE)/`` begin with the innermost call,
later ones with the outermost; here the outermost is always first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache

from pytest_msdump.core.model.dump import Operator, OperatorGraph
from pytest_msdump.core.model.tensor import SourceFrame, SourceStack

_CANDIDATE = "Corresponding "
_DASH = "-"
_IN_FILE = "In file "
_INLINED = "inlined:"
# The path may hold colons and brackets itself: its suffix decides, where it has one.
_PLACE = r"(?:\((?P<old>[0-9]{1,9})\)|:(?P<line>[0-9]{1,9})(?:~(?P<last>[0-9]{1,9}))?(?:, ?[0-9]{1,9}~[0-9]{1,9})?)/"
_SCRIPT = re.compile(r"(?P<file>.*?\.pyw?)" + _PLACE + r"(?P<text>.*)", re.DOTALL)
_OTHER = re.compile(r"(?P<file>.+?)" + _PLACE + r"(?P<text>.*)", re.DOTALL)
_SHARED = "<~~"

_FRAMEWORK = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|build/package|mindspore/python|mindspore)/mindspore/"
    r"(?:_[^/]*|nn|ops|common|train|boost|communication|experimental|graph|mint|numpy|ops_generate|parallel|rewrite"
    r"|scipy|dataset|amp\.py|context\.py)(?:/|$)"
)
_INSTALLED = re.compile(r"(?:^|/)(?:site-packages|dist-packages|build/package)/mindspore/")
_DEFINITION = re.compile(r"(?:async\s+)?def\s|class\s|@")
_QUERY = re.compile(r"(?P<file>[^()=\"']+):(?P<line>[0-9]{1,9})")


@dataclass
class _Stack:
    """Frames as they are read."""

    is_forward: bool
    is_reversed: bool
    frames: list[SourceFrame] = field(default_factory=list)

    def made(self) -> SourceStack:
        return SourceStack(tuple(reversed(self.frames) if self.is_reversed else self.frames), self.is_forward)


class FrameReader:
    """Reads the ``# In file …`` lines of one graph file, each different one once."""

    def __init__(self) -> None:
        self._frame = cache(_frame)
        self._known = cache(self._read)

    def stacks(self, lines: Iterable[str], *, is_innermost_first: bool = False) -> tuple[SourceStack, ...]:
        """Read one operator's ``# In file …`` and ``# Corresponding … candidate:`` lines, or those of a ``.pb`` file.

        `is_innermost_first` says that later releases, too, wrote the innermost call first here. Returns the calls that
        made the operator, then those of its forward operator, without empty ones.
        """
        return self._known(tuple(lines), is_innermost_first)

    def _read(self, lines: Iterable[str], is_innermost_first: bool) -> tuple[SourceStack, ...]:
        stacks = [_Stack(False, is_innermost_first)]
        for line in lines:
            text = line.lstrip("# ")
            # `.pb` files put a dash before the first line of each of several candidates.
            if text.startswith((_CANDIDATE, _DASH)):
                stacks.append(
                    _Stack("forward" in text if text[0] != _DASH else stacks[-1].is_forward, is_innermost_first)
                )
            found = self._frame(text.removeprefix(_DASH).lstrip())
            if found is not None:
                stacks[-1].frames.append(found[0])
                stacks[-1].is_reversed |= found[1]
        return tuple(stack.made() for stack in stacks if stack.frames)


def _frame(text: str) -> tuple[SourceFrame, bool] | None:
    """Read one place, and whether it is written as by releases that begin with the innermost call."""
    text = text.removeprefix(_INLINED).lstrip()
    if not text.startswith(_IN_FILE):
        return None
    rest = text.removeprefix(_IN_FILE)
    match = _SCRIPT.fullmatch(rest) or _OTHER.fullmatch(rest)
    if match is None:
        return None
    code = match["text"].partition(_SHARED)[0].strip().removesuffix("/").strip()
    line = int(match["old"] or match["line"])
    last = int(match["last"]) if match["last"] else None
    return SourceFrame(match["file"], line, code, last), match["old"] is not None


def is_framework(path: str) -> bool:
    """Whether a file is one of MindSpore's own."""
    plain = path.replace("\\", "/")
    return bool(_INSTALLED.search(plain) or _FRAMEWORK.search(plain))


def user_frame(stack: SourceStack) -> SourceFrame | None:
    """Return the user's line of a stack: the innermost one outside the framework, if any."""
    own = [frame for frame in stack.frames if not is_framework(frame.file)]
    calls = [frame for frame in own if not _DEFINITION.match(frame.text)]
    return (calls or own)[-1] if own else None


def user_frames(operator: Operator) -> tuple[SourceFrame, ...]:
    """Return the user's lines that made an operator: its own first, then its forward operator's; each once."""
    stacks = sorted(operator.stacks, key=lambda stack: stack.is_forward)
    return tuple(dict.fromkeys(frame for stack in stacks if (frame := user_frame(stack)) is not None))


def frames_of(operator: Operator) -> tuple[SourceFrame, ...]:
    """Return the calls that made an operator, outermost first; for a gradient's without any, its forward operator's."""
    stacks = sorted(operator.stacks, key=lambda stack: stack.is_forward)
    return stacks[0].frames if stacks else ()


def operators_at(graph: OperatorGraph, where: str) -> tuple[Operator, ...]:
    """Find the operators that a line of the program made, in execution order, gradients as well."""
    query = _QUERY.fullmatch(where.strip())
    code = " ".join(where.split())
    if query:
        file, line = _parts(query["file"]), int(query["line"])
        found = _matching(
            graph.operators, lambda frame: _covers(frame, line) and _parts(frame.file)[-len(file) :] == file
        )
        if found:
            return found
    return _matching(graph.operators, lambda frame: code in " ".join(frame.text.split())) if code else ()


def _matching(operators: Iterable[Operator], is_meant: Callable[[SourceFrame], bool]) -> tuple[Operator, ...]:
    # Operators share their stacks' frames, so each frame is asked once.
    asked: dict[SourceFrame, bool] = {}
    found = []
    for operator in operators:
        frames = [frame for stack in operator.stacks for frame in stack.frames]
        for frame in frames:
            if frame not in asked:
                asked[frame] = is_meant(frame)
        if any(asked[frame] for frame in frames):
            found.append(operator)
    return tuple(found)


def _covers(frame: SourceFrame, line: int) -> bool:
    is_definition = _DEFINITION.match(frame.text) is not None
    last = frame.line if is_definition or frame.last_line is None else frame.last_line
    return frame.line <= line <= last


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.replace("\\", "/").split("/") if part not in ("", "."))
