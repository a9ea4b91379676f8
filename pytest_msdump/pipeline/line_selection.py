"""``line:net.py:58`` in a selection: the operators that this line of the program made, by the graphs of both runs."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from dataclasses import replace

from pytest_msdump.errors import ConfigError
from pytest_msdump.matching.selection import Selection
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.graph import OperatorGraph

__all__ = ["LINE", "by_names"]

# Before a place in the program, where globs are typed.
LINE = "line:"

_MOST_LISTED = 5


def by_names(selection: Selection, left: Dump, right: Dump) -> Selection:
    """Return the selection with every line of the program replaced by the names of the operators that it made.

    Parameters
    ----------
    selection : Selection
        As it was typed: ``line:FILE:LINE``, or ``line:`` and code as it stands in the program, among globs.
    left, right : Dump
        Whose graphs are asked.

    Raises
    ------
    ConfigError
        No graph tells lines, or none of them has that one.
    """
    graphs = [graph for dump in (left, right) for _, graph in dump.graphs]

    def names(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for text in texts for name in _meant(text, graphs)))

    return replace(selection, select=names(selection.select), deselect=names(selection.deselect))


def _meant(text: str, graphs: Iterable[OperatorGraph]) -> Iterator[str]:
    if not text.startswith(LINE):
        yield text
        return
    from pytest_msdump.graphs.source_lines import operators_at

    where = text.removeprefix(LINE)
    found = [operator for graph in graphs for operator in operators_at(graph, where)]
    if not found:
        raise ConfigError(f"{text}: {_why_none(graphs)}")
    # A name may hold brackets; it means itself.
    yield from (glob.escape(operator.name) for operator in found)


def _why_none(graphs: Iterable[OperatorGraph]) -> str:
    from pytest_msdump.graphs.source_lines import user_frames

    lines = {frame.place for graph in graphs for operator in graph.operators for frame in user_frames(operator)}
    if not lines:
        return (
            'neither side has a graph that tells lines of the program; name one with graph_files = ["….ir"] in the '
            "suite file"
        )
    told = sorted(lines)
    more = len(told) - _MOST_LISTED
    listed = ", ".join(told[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
    return f"no operator of either side was made by it; there are {listed}"
