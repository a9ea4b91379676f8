"""Where runs keep what they tell of themselves beside a dump: ``graphs`` and ``execution_order`` of a rank.

References
----------
MindSpore "Dump" documentation: ``rank_R`` since 1.5; before that ``{device}``, and for the synchronous dump
``{net}/{device}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pytest_msdump.model.tensor import Coordinates
from pytest_msdump.storage.listings import folders_in
from pytest_msdump.storage.remote import spelled_out

__all__ = ["side_folders"]

_RANK = re.compile(r"rank_(?P<rank>[0-9]{1,9})")
_DEVICE = re.compile(r"(?:device_)?(?P<rank>[0-9]{1,9})")
# An iteration's directory is three levels below its rank's.
_LEVELS_BELOW_RANK = 3


def side_folders(root: Path, name: str) -> Iterator[tuple[Coordinates, Path]]:
    """List the places where a folder of side files may be; whether it is there is not looked at.

    Parameters
    ----------
    root : Path
        The dump's root: the tree, one rank of it, or a directory further down.
    name : str
        What the folder is called.

    Yields
    ------
    Coordinates, Path
        Whose it would be: rank, and net where side files are kept by net. Those above the root come first.
    """
    absolute = spelled_out(root)
    for folder in (absolute, *absolute.parents)[: _LEVELS_BELOW_RANK + 1]:
        own = _RANK.fullmatch(folder.name) or _DEVICE.fullmatch(folder.name)
        if own:
            yield Coordinates(rank=int(own["rank"])), folder / name
    for entry in folders_in(root):
        rank, device = _RANK.fullmatch(entry), _DEVICE.fullmatch(entry)
        of_rank = rank or device
        if of_rank:
            yield Coordinates(rank=int(of_rank["rank"])), root / entry / name
        if not rank:
            yield from _of_net(entry, root / entry, name)


def _of_net(net: str, folder: Path, name: str) -> Iterator[tuple[Coordinates, Path]]:
    for entry in folders_in(folder):
        device = _DEVICE.fullmatch(entry)
        if device:
            yield Coordinates(rank=int(device["rank"]), net=net), folder / entry / name
