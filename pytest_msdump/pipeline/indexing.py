"""Index a dump: choose its reader, list its tensors by name, tell them by what lies beside them. Opens no tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pytest_msdump import registry
from pytest_msdump.pipeline.collecting import collector_at_rest
from pytest_msdump.storage.remote import RemotePath, list_remote, refuse_changed

if TYPE_CHECKING:
    from pytest_msdump.model.dump import Dump
    from pytest_msdump.readers.base import Reader

__all__ = ["index", "listed", "reader", "readers"]

# Who reads one array, which is a whole dump without anything beside it.
_ARRAY_READER, _ARRAY = "npy-file", ".npy"


@cache
def readers() -> Mapping[str, Reader]:
    """All readers by name, looked up once in a process."""
    found: dict[str, Reader] = registry.load("readers", "Reader")
    return found


@cache
def reader(name: str) -> Reader:
    """The reader of this name; loads no other."""
    return cast("Reader", registry.find("readers", "Reader", name))


def index(root: Path, *, graph_files: Iterable[Path] = (), allow_incomplete: bool = False) -> Dump:
    """Index the dump at `root`, in execution order where the run tells it, with the lines of the program it tells.

    Parameters
    ----------
    root : Path
        A dump directory, or one tensor file; of a remote one, the names are listed anew.
    graph_files : iterable of Path
        Execution orders and graphs that a user keeps outside of the tree.
    allow_incomplete : bool
        Take a recording that has not ended or was broken off as it is; its notes say so.

    Returns
    -------
    Dump
        `reader` is ``"empty"`` for a folder without files.

    Raises
    ------
    DumpNotFoundError
        There is nothing at `root`.
    UnknownDumpFormatError
        There are files, but none that any reader knows; the text lists what each reader looked for.
    IncompleteRecordingError
        It is a recording that has not ended, or was broken off.
    ConfigError
        One of `graph_files` cannot be used, or what a URL needs is not installed.

    Notes
    -----
    One ``.npy`` file is numpy's format, and read as such; who else could read it is not asked.
    """
    kept = tuple(graph_files)
    if not kept and root.suffix == _ARRAY and not isinstance(root, RemotePath) and root.is_file():
        return reader(_ARRAY_READER).index(root)
    return _index(root, kept, allow_incomplete=allow_incomplete)


def _index(root: Path, graph_files: tuple[Path, ...], *, allow_incomplete: bool) -> Dump:
    """Index anything: a dump goes from stage to stage, each of which tells more of it."""
    from pytest_msdump.pipeline.culprits import with_overflows
    from pytest_msdump.pipeline.manifests import only_whole, with_manifest
    from pytest_msdump.pipeline.run_facts import with_run
    from pytest_msdump.pipeline.statistics import with_statistics
    from pytest_msdump.readers.base import index_dump
    from pytest_msdump.storage.listings import names_kept

    unfit = list_remote(root) if isinstance(root, RemotePath) else ()
    with names_kept(), collector_at_rest():
        dump = only_whole(with_manifest(index_dump(root, readers())), allow_incomplete=allow_incomplete)
        dump = with_run(with_overflows(_with_graphs(with_statistics(dump), graph_files)))
    if isinstance(root, RemotePath):
        refuse_changed()
    return replace(dump, unexplained=(*dump.unexplained, *unfit)) if unfit else dump


def listed(path: Path) -> Path:
    """Return the same path; a remote one is listed, so that it answers whether it is a file or a folder."""
    if isinstance(path, RemotePath):
        list_remote(path)
    return path


def _with_graphs(dump: Dump, files: tuple[Path, ...]) -> Dump:
    """Give operators their places and names, by execution orders first, then the lines and shapes that graphs tell."""
    from pytest_msdump.graphs.execution_order import find_orders, order_files, read_orders, with_order
    from pytest_msdump.graphs.graph_files import find_irs, placed, read_graphs

    kept_orders, kept_graphs = order_files(files)
    kept_numbers = {at.graph for at in kept_orders}
    own = {at: path for at, path in find_orders(dump.root).items() if at.graph not in kept_numbers}
    orders, order_notes = read_orders({**own, **kept_orders})
    dump = with_order(dump, orders, notes=order_notes)
    graphs, graph_notes = read_graphs(find_irs(dump.root))
    graphs = (*graphs, *placed(kept_graphs))
    if not graphs:
        return replace(dump, notes=(*dump.notes, *graph_notes))
    from pytest_msdump.graphs.ir_names import with_ir

    return replace(with_ir(dump, graphs, orders=orders, notes=graph_notes), graphs=graphs)
