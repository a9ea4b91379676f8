"""Which references ``--msdump-generate`` has made, in whichever process of the session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_msdump.escape import shell_line, terminal_text
from pytest_msdump.storage.files import read_regular

__all__ = ["GENERATED", "generated_lines", "generated_references", "mark_folder"]

_LONGEST_PATH_BYTES = 2**16

GENERATED = pytest.StashKey[list[str]]()


def mark_folder(config: pytest.Config, folders: pytest.TempPathFactory) -> Path:
    """Return the session's folder with a file for each reference that was made, which holds its path."""
    base = folders.getbasetemp()
    # Workers of pytest-xdist have folders of their own below the session's.
    return (base.parent if hasattr(config, "workerinput") else base) / "msdump-generated"


def generated_references(config: pytest.Config) -> list[str]:
    """Return the folders of the references that this session has made."""
    folders: pytest.TempPathFactory | None = getattr(config, "_tmp_path_factory", None)
    marks = [] if folders is None else mark_folder(config, folders).glob("*")
    return sorted(os.fsdecode(read_regular(mark, _LONGEST_PATH_BYTES)) for mark in marks)


def generated_lines(config: pytest.Config) -> Iterator[str]:
    """Yield what ``--msdump-generate`` made, a line for each reference, and the command that uses them."""
    made = config.stash.get(GENERATED, None)
    if made is None:
        return
    if not made:
        yield "--msdump-generate made nothing: no test that ran uses msdump_reference"
        return
    yield f"--msdump-generate made {len(made)} {'reference' if len(made) == 1 else 'references'}:"
    yield from (f"  {terminal_text(os.path.relpath(folder))}" for folder in made)
    words = [word for word in config.invocation_params.args if word != "--msdump-generate"]
    yield f"next: {shell_line(['pytest', *words])}"
