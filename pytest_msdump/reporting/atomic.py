"""Writing report files: whole or not at all, into a directory that version control leaves alone."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pytest_msdump.errors import MsdumpError

__all__ = ["in_utf8", "make_directory", "write_file"]


def write_file(directory: Path, name: str, content: bytes | Iterable[bytes]) -> Path:
    """Write ``directory/name``, whole or piece by piece, so that a reader sees the old file or the new one.

    The directory is made when it is not there, then with a ``.gitignore`` of its own; one that exists is not touched,
    it may be the user's.

    Raises
    ------
    MsdumpError
        The directory or the file cannot be written.
    """
    target = directory / name
    temporary = directory / f".{name}.{os.urandom(16).hex()}.tmp"
    try:
        make_directory(directory)
        try:
            with temporary.open("wb") as file:
                file.writelines([content] if isinstance(content, bytes) else content)
            temporary.replace(target)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        raise MsdumpError(
            f"the report {target} cannot be written: {reason}; name another directory with --msdump-report-dir"
        ) from error
    return target


def in_utf8(text: str) -> bytes:
    r"""Return a text as files hold it.

    Bytes of file names that are no characters are what they were. Any other half of a character, as a name in a JSON
    file may have it, is written like JSON does.

    Examples
    --------
    >>> in_utf8("n\u00e4me"), in_utf8("n\udce4me"), in_utf8("n\ud800me")
    (b'n\xc3\xa4me', b'n\xe4me', b'n\\ud800me')
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        whole = "".join([f"\\u{ord(one):04x}" if _is_half(one) else one for one in text])
        return whole.encode("utf-8", "surrogateescape")


def _is_half(one: str) -> bool:
    """Whether it is half of a character, and no byte of a file name."""
    return "\ud800" <= one <= "\udfff" and not "\udc80" <= one <= "\udcff"


def make_directory(directory: Path) -> None:
    """Make the report directory; only a new one is marked as generated.

    Raises
    ------
    OSError
        It cannot be made.
    """
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        if not directory.is_dir():
            raise
        return
    (directory / ".gitignore").write_text("*\n", encoding="utf-8")
