"""``python -m pytest_msdump.compat.msaccucmp overflow -d DIR -out DIR``: the newer script's command line.

References
----------
Ascend "Accuracy Comparison Tool", ``msaccucmp.py overflow``, release 26.2.0.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from pytest_msdump.cli import overflow
from pytest_msdump.compat.arguments import Flag, Grammar
from pytest_msdump.compat.batch import said
from pytest_msdump.errors import ConfigError
from pytest_msdump.escape import shell_line

__all__ = ["GRAMMAR", "run_overflow"]

GRAMMAR = Grammar(
    program="python -m pytest_msdump.compat.msaccucmp overflow",
    summary="Find out which operators overflowed. Exit code 0: none; 1: some did; 4: usage error.",
    flags=(
        Flag(("-d", "--dump_path"), "dump", "a dump with overflow files (Opdebug)", "DIR", required=True),
        Flag(("-out", "--output"), "out", "folder for the records, tensors and overflow_summary", "DIR", required=True),
        Flag(("-n", "--topn"), "first", "write so many overflow files, 1 to 5; 1 by default", "N"),
    ),
    refused={},
)


def run_overflow(program: str, words: Sequence[str]) -> int:
    """Run the command line as ``msdump overflow`` does, and say how that is typed; return the exit code.

    Raises
    ------
    ConfigError
        A wrong option, or no dump.
    """
    arguments = GRAMMAR.parse(words)
    dump, out, first = arguments.values["dump"], arguments.values["out"], arguments.get("first") or "1"
    if not (first.isascii() and first.isdigit() and len(first) < 10):
        raise ConfigError(f"-n {first}: give a number from 1 to 5")
    options = {"directory": dump, "dump": None, "out": out, "first": int(first)}
    code = overflow.run(argparse.Namespace(**options, msdump_allow_incomplete=None, quiet=False))
    said(program, f"the same as: {shell_line(['msdump', 'overflow', dump, '--out', out, '-n', first])}")
    return code
