"""A compiled model as ATC writes it into JSON, and the rule JSON of AMCT, which has the same structure.

References
----------
ATC user guide, ``--mode=1`` (offline model to JSON); AMCT user guides, quantisation fusion rule file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pytest_msdump.errors import ConfigError
from pytest_msdump.escape import shell_word
from pytest_msdump.graphs.circles import operators_in_circles
from pytest_msdump.graphs.ge_operator import named_operator
from pytest_msdump.graphs.json_fields import checked, document, may_hold_long_number, need, text_of
from pytest_msdump.graphs.json_walk import UnusualJsonError, Walk
from pytest_msdump.model.graph import Operator, OperatorGraph
from pytest_msdump.storage.regular import read_given

__all__ = ["MAX_BYTES", "model_graph", "parse_model", "read_model"]

MAX_BYTES = 512 * 2**20

_COMPILED = ".om"
_UNCOMPILED = frozenset({".air", ".pb", ".onnx", ".caffemodel"})
# The first bytes of an offline model, whatever its file is called.
_MAGIC = b"IMOD"

# From this length on, the objects of a whole text take more memory, and so more time, than it costs to do without.
_LARGE = 2**16

_MOST_LISTED = 3


def read_model(path: Path) -> OperatorGraph:
    """Read the JSON of a compiled model, or the rule JSON that AMCT writes.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    OperatorGraph
        `source` is the file's name.

    Raises
    ------
    ConfigError
        There is no such file, it is larger than 512 MiB, it is a model and not the JSON of one (the text has the
        command that writes the JSON), or `parse_model` cannot read it.
    """
    _refuse_model(path, b"")
    data = read_given(path, MAX_BYTES, want="give the JSON of a compiled model")
    _refuse_model(path, data)
    return parse_model(data, source=path.name)


def _refuse_model(path: Path, data: bytes) -> None:
    suffix = path.suffix.lower()
    if suffix in _UNCOMPILED:
        compiled = path.with_suffix(_COMPILED)
        raise ConfigError(
            f"{path}: not the JSON of a compiled model; compile it to {compiled.name}, then run: {_command(compiled)}"
        )
    if suffix == _COMPILED or data.startswith(_MAGIC):
        raise ConfigError(f"{path}: a compiled model, not its JSON; write the JSON with: {_command(path)}")


def _command(model: Path) -> str:
    return f"atc --mode=1 --om={shell_word(str(model))} --json={shell_word(str(model.with_suffix('.json')))}"


def parse_model(data: str | bytes, *, source: str) -> OperatorGraph:
    """Read the text of a model's JSON.

    Parameters
    ----------
    data : str or bytes
        The whole text; bytes are UTF-8.
    source : str
        What messages call the text, e.g. ``"fusion.json"``.

    Returns
    -------
    OperatorGraph
        In the file's order. Of two operators of one name the first counts, and `notes` says so; `notes` also tells
        operators that feed one another in a circle.

    Raises
    ------
    ConfigError
        It is not JSON, or not a model's: the text names the place, as in ``fusion.json: graph[0].op[17]: 'name' is
        missing``.

    Notes
    -----
    An operator without the attribute ``_datadump_original_op_names`` is itself part of the original model. With the
    attribute but without a list in it, it was inserted by the compiler.
    """
    text = text_of(data, source)
    if len(text) > _LARGE:
        # What is wrong is told by who sees the whole: a text that is not JSON is told so, whatever its operators are.
        with suppress(UnusualJsonError, ConfigError):
            return _walked(text, source)
    return model_graph(document(text, source), source=source)


def _walked(text: str, source: str) -> OperatorGraph:
    """Read a model's text operator by operator: the objects of a whole file take ten times its size."""
    if may_hold_long_number(text):
        raise UnusualJsonError
    walk, name = Walk(text), None
    operators: list[tuple[str, Operator]] | None = None
    for key in walk.members():
        if key == "graph":
            operators = [named_operator(entry) for _ in walk.items() for entry in _entries(walk)]
        else:
            value = walk.value()
            name = value if key == "name" else name
    walk.end()
    if operators is None:
        raise UnusualJsonError
    return _graph(operators, name, source)


def _entries(walk: Walk) -> Iterator[Any]:
    """Take the graph here; yield its operators."""
    has_operators = False
    for key in walk.members():
        if key != "op":
            walk.value()
            continue
        has_operators = True
        yield from walk.values()
    if not has_operators:
        raise UnusualJsonError


def model_graph(model: Mapping[str, Any], *, source: str) -> OperatorGraph:
    """Read a model from the object that its JSON is; as `parse_model`, for other writings of the same structure."""
    return _graph(_operators(model, source), model.get("name"), source)


def _graph(entries: Iterable[tuple[str, Operator]], name: object, source: str) -> OperatorGraph:
    operators: dict[str, Operator] = {}
    written: set[str] = set()
    repeated: dict[str, None] = {}
    for raw, operator in entries:
        operators.setdefault(operator.name, operator)
        # The slices of one operator share their name by intention.
        if raw in written:
            repeated[raw] = None
        written.add(raw)
    found = tuple(operators.values())
    notes = tuple(_notes(found, list(repeated), source))
    return OperatorGraph(found, source, notes, model=name if isinstance(name, str) else "")


def _operators(model: Mapping[str, Any], source: str) -> Iterator[tuple[str, Operator]]:
    for number, graph in enumerate(need(model, "graph", list, source)):
        place = f"{source}: graph[{number}]"
        for position, entry in enumerate(need(checked(graph, dict, place, "it"), "op", list, place)):
            yield _placed(entry, f"{place}.op[{position}]")


def _placed(entry: Any, place: str) -> tuple[str, Operator]:
    try:
        return named_operator(entry)
    except ConfigError as error:
        raise ConfigError(f"{place}{error}") from error


def _notes(operators: Sequence[Operator], repeated: Sequence[str], source: str) -> Iterator[str]:
    if repeated:
        yield f"{source}: {_listed(repeated)} is there more than once; the first counts"
    circles = operators_in_circles(operators)
    if circles:
        yield f"{source}: {_listed(circles)} feed one another in a circle"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
