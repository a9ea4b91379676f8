"""From what a user writes to a path: a folder of this machine, or a URL."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from pytest_msdump.errors import ConfigError
from pytest_msdump.storage.remote import RemotePath

__all__ = ["is_url", "located"]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://(.*)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SECRETS = "set them in the environment, or where the storage's own tools look for them"


def is_url(text: str) -> bool:
    """Whether this is a URL and no path of this machine."""
    return _URL.match(text) is not None


def located(text: str, base: Path, *, where: str = "") -> Path:
    """Return the path that was written.

    Parameters
    ----------
    text : str
        A path of this machine, or a URL such as ``s3://bucket/dump``; ``file:///path`` is that path.
    base : Path
        What a relative path starts from.
    where : str
        Who wrote it, which messages begin with.

    Returns
    -------
    Path
        A `RemotePath` for any other URL. Nothing is asked of the storage yet.

    Raises
    ------
    ConfigError
        The URL holds a password or a query, which reports would tell on, or cannot be a dump's.
    """
    match = _URL.match(text)
    if match is None:
        return base / text
    scheme, rest = match[1].lower(), match[2]
    place = f"{where}: " if where else ""
    problem = _problem(scheme, rest)
    if problem:
        raise ConfigError(f"{place}{problem}")
    if scheme == "file":
        return _local(rest, place)
    # An empty host is the rule only where there is none.
    body = (rest.lstrip("/") if scheme == "memory" else rest).rstrip("/")
    parts = body.split("/")
    if not body or not parts[0]:
        raise ConfigError(f"{place}{scheme}://… names nothing; write {scheme}://bucket/folder")
    if not {"", ".", ".."}.isdisjoint(parts):
        raise ConfigError(f"{place}{scheme}://{body} holds an empty part, '.' or '..'; write the folder's whole name")
    return RemotePath(f"/{scheme}:/{body}")


def _problem(scheme: str, rest: str) -> str:
    """Say what nobody should write. A text that may be secret is not repeated."""
    if _CONTROL.search(rest):
        return f"{scheme}://… holds a control character, which no name of a dump does"
    if "@" in rest.split("/", 1)[0]:
        return f"{scheme}://…@…: a name or password in a URL would stand in every report; {_SECRETS}"
    if "?" in rest:
        return f"{scheme}://…?…: a query, which may be a signature, would stand in every report; {_SECRETS}"
    if "::" in rest.split("/", 1)[0]:
        return f"{scheme}://…::… chains file systems, which is not known here; give the folder's own URL"
    return ""


def _local(rest: str, place: str) -> Path:
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise ConfigError(f"{place}file://{rest} names another machine; write file:///path for a folder of this one")
    return Path(unquote(f"/{path}"))
