"""Takes out of a manifest what is true on one machine only, so that a kept reference can be committed and carried."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

__all__ = ["movable"]

_START = r"(?:(?<![\w.~/\\-])|(?<=^-\w))"
_END = r"\s:;,=\"'\[\](){}"
# An absolute path inside of an argument, at its start or behind a sign: --out=/a, a:/b, -I/c, file:///d. Neither a
# relative one nor the address of a web page.
_ABSOLUTE = re.compile(rf"{_START}(?:file://|(?<!:)/+)?/(?!/)[^{_END}]+")


def movable(values: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return the content of a manifest without the paths of this machine.

    Parameters
    ----------
    values : mapping
        As JSON has it.
    root : Path
        The project's folder. Lines of files below it are told relative to it, other lines are left out. Of the
        command, paths below it become relative to it, too, and of other paths the last part stays.

    Examples
    --------
    >>> movable({"command": ["/usr/bin/python3", "/home/me/net/train.py", "--out=/opt/dump"]}, Path("/home/me/net"))
    {'command': ['python3', 'train.py', '--out=dump']}
    """
    # A program is called by either spelling of a folder behind a link.
    roots = tuple(dict.fromkeys((os.path.abspath(root), os.path.realpath(root))))  # noqa: PTH100
    made = dict(values)
    if isinstance(values.get("command"), list):
        made["command"] = [_argument(str(text), roots) for text in values["command"]]
    if isinstance(values.get("tensors"), dict):
        made["tensors"] = {name: _entry(said, roots) for name, said in values["tensors"].items()}
    return made


def _entry(said: Any, roots: tuple[str, ...]) -> Any:
    """An entry whose line is told relative to the project, or not at all."""
    if not isinstance(said, dict) or not isinstance(said.get("line"), str) or not said["line"].startswith("/"):
        return said
    for root in roots:
        below = said["line"].removeprefix(f"{root.rstrip('/')}/")
        if below != said["line"]:
            return {**said, "line": below}
    return {name: value for name, value in said.items() if name != "line"}


def _argument(text: str, roots: tuple[str, ...]) -> str:
    for root in roots:
        # Here and not below, since folders' names may hold what ends a path elsewhere, such as spaces.
        text = re.sub(rf"{_START}{re.escape(root)}(/(?=[^/{_END}])|(?=/?(?:$|[{_END}])))", _inside, text)
    return _ABSOLUTE.sub(lambda found: PurePosixPath(found[0]).name, text)


def _inside(found: re.Match[str]) -> str:
    return "" if found[1] else "."
