"""What a conversion writes beside its arrays: the list of what failed, and long names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_msdump.converting.array_files import whole_file
from pytest_msdump.converting.one_file import Outcome
from pytest_msdump.errors import MsdumpError
from pytest_msdump.escape import terminal_text
from pytest_msdump.readers.sidefiles import MAPPING, read_mapping
from pytest_msdump.reporting.atomic import in_utf8

__all__ = ["FAILED_LIST", "write_failed_list", "write_mappings"]

FAILED_LIST = "convert_failed_file_list.txt"


def write_failed_list(outcomes: Iterable[Outcome], out: Path) -> Path | None:
    """List what could not be converted; without failures, remove the list of an earlier run.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Of all files.
    out : Path
        The output folder.

    Returns
    -------
    Path or None
        The list. A line has the source's path and, behind commas, those of its tensors that failed, as the vendor's has
        it: none where not one could be opened. Lines that begin with ``#`` below it say why.
    """
    failed = sorted((outcome for outcome in outcomes if outcome.failures), key=lambda outcome: outcome.path)
    path = out / FAILED_LIST
    if not failed:
        with suppress(OSError):
            path.unlink()
        return None
    with whole_file(path) as stream:
        for outcome in failed:
            labels = [label for label, _ in outcome.failures if label and outcome.opened]
            lines = [",".join([str(outcome.path), *labels])]
            lines += [f"# {label}: {reason}" if label else f"# {reason}" for label, reason in outcome.failures]
            # A name with a line break in it would look like two.
            stream.write("".join(f"{terminal_text(line)}\n" for line in lines).encode())
    return path


def write_mappings(names: Sequence[tuple[Path, str, str]]) -> list[Path]:
    """Note in each folder's ``mapping.csv`` which long names its short ones stand for; keep what it says already.

    Raises
    ------
    MsdumpError
        It cannot be written, or is no such table.
    """
    by_folder: defaultdict[Path, dict[str, str]] = defaultdict(dict)
    for folder, short, name in names:
        by_folder[folder][short] = name
    written = []
    for folder, rows in by_folder.items():
        path = folder / MAPPING
        if path.exists():
            known, note = read_mapping(path)
            if note:
                raise MsdumpError(f"{path} {note}; move it away, it would have to be written over")
            rows = {**known, **rows}
        with whole_file(path) as stream:
            stream.write(in_utf8("".join(f"{short},{name}\n" for short, name in rows.items())))
        written.append(path)
    return written
