"""``python -m pytest_msdump.core.suite FILE…``: read suite files as a run does, without their dumps; for pre-commit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.escape import terminal_lines
from pytest_msdump.core.suite import load_suite

_USAGE = 4


def main(files: Sequence[str]) -> int:
    """Write one error for each file that cannot be read; return 4 if there is any."""
    errors = [error for error in map(_error, files) if error is not None]
    sys.stderr.writelines(f"{terminal_lines(str(error))}\n" for error in errors)
    return _USAGE if errors else 0


def _error(file: str) -> MsdumpError | None:
    try:
        # Sides may be left to the command line.
        load_suite(file=Path(file), options={"left": ".", "right": "."}, directory=Path.cwd())
    except MsdumpError as error:
        return error
    return None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
