"""The operands of one line of MindSpore's IR, in which names, texts and values stand without any quoting.

Brackets are counted, texts and the names of parameters, which the file lists, are stepped over; where a name that is
nowhere listed holds a bracket, the operands after it are not known, and no line but this one is touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping

from pytest_msdump.graphs.flow import CONSTANT, MONAD, Constant, Of, Operand, Weight

__all__ = ["Names", "operands", "split_call"]

_OPEN = "([{"
_CLOSE = ")]}"
_PARAMETER = re.compile(r"(?:\$\(@[^:]{0,1000}:|%)?para([0-9]{1,9})_")
_LOCAL = re.compile(r"%([0-9]{1,9})(?![0-9A-Za-z_])")
_FOREIGN = re.compile(r"\$\(@(?P<graph>[^:]{0,1000}):(?P<alias>.*)\)", re.DOTALL)
_WHOLE = re.compile(r"(?:[A-Za-z]\w*\()?(-?[0-9]{1,18})\)?")
_MONADS = frozenset({"U", "IO", "UMonad[U]", "IOMonad[IO]", "UMonad", "IOMonad"})
_INTERESTING = re.compile(r"[()\[\]{},\"%$]")


class Names:
    """What the names in operands stand for: numbers of nodes and names of parameters."""

    def __init__(self, parameters: MutableMapping[int, str]) -> None:
        self.parameters = parameters
        self._local: dict[int, int] = {}
        self._foreign: dict[tuple[str, str], int] = {}
        self._graph = ""

    def enter(self, graph: str) -> None:
        """Begin a subgraph; the numbers of nodes begin anew."""
        self._graph = graph
        self._local.clear()

    def add(self, local: int, alias: str, node: int) -> None:
        """Tell of a node."""
        self._local[local] = node
        self._foreign[self._graph, alias] = node

    def meant(self, text: str) -> Operand:
        """Tell what an operand is."""
        if text in _MONADS:
            return MONAD
        local = _LOCAL.match(text)
        if local:
            number = self._local.get(int(local[1]))
            return CONSTANT if number is None else Of(number)
        parameter = _PARAMETER.match(text)
        if parameter:
            return Weight(self._weight(text, parameter))
        foreign = _FOREIGN.fullmatch(text)
        if foreign:
            number = self._foreign.get((foreign["graph"], foreign["alias"]))
            return CONSTANT if number is None else Of(number)
        whole = _WHOLE.fullmatch(text)
        return Constant(int(whole[1])) if whole else CONSTANT

    def _weight(self, text: str, match: re.Match[str]) -> str:
        written = text[match.end() :].removesuffix(")") if text.startswith("$") else text[match.end() :]
        number = int(match[1])
        # Graphs of control flow list their parameters without names.
        if not self.parameters.get(number):
            self.parameters[number] = written or f"para{number}"
        return self.parameters[number]


def split_call(text: str) -> tuple[str, int]:
    """Split ``TYPE(`` off; returns the type and where its operands begin. An empty type: there are none."""
    depth = 0
    for match in re.finditer(r"[()\[\]{}]", text):
        letter = match[0]
        if letter == "(" and depth == 0 and not text.startswith("$(", match.start() - 1):
            return text[: match.start()].strip(), match.end()
        depth = max(depth + (letter in _OPEN) - (letter in _CLOSE), 0)
    return "", len(text)


def operands(text: str, start: int, names: Names) -> tuple[Operand, ...]:
    """Read operands up to the bracket that ends them.

    Parameters
    ----------
    text : str
        A node's line.
    start : int
        Just behind the bracket that begins them.
    names : Names
        What was read before.

    Returns
    -------
    tuple of Operand
        In their order.
    """
    return tuple(names.meant(part) for part in _parts(text, start, names.parameters))


def _parts(text: str, start: int, parameters: Mapping[int, str]) -> Iterator[str]:
    depth, begin, position = 0, start, start
    while True:
        match = _INTERESTING.search(text, position)
        if match is None:
            break
        position = match.end()
        letter = match[0]
        if letter == '"' or letter in "%$":
            position = _behind(text, match.start(), parameters)
        elif letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
        if depth < 0 or (letter == "," and depth == 0):
            part = text[begin : match.start()].strip()
            if part or depth == 0:
                yield part
            begin = position
        if depth < 0:
            return


def _behind(text: str, start: int, parameters: Mapping[int, str]) -> int:
    """Tell where a text or the name of a parameter ends; one behind `start` for anything else."""
    if text[start] == '"':
        end = text.find('"', start + 1)
        return end + 1 if end > 0 else start + 1
    match = _PARAMETER.match(text, start)
    name = parameters.get(int(match[1]), "") if match else ""
    end = match.end() + len(name) if match else 0
    if name and text.startswith(name, end - len(name)) and text[end : end + 1] in (",", ")"):
        # `$(@graph:para1_name)` ends with a bracket of its own.
        return end + (text[start] == "$")
    return start + 1
