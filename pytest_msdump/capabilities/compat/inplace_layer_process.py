"""``python -m pytest_msdump.compat.inplace_layer_process -i IN``: the script's command line, run by this package.

References: Ascend "Accuracy Comparison Tool", "Preparing .npy Data of a Caffe Model", the script
``inplace_layer_process.pyc``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

from pytest_msdump.capabilities.compat.arguments import Flag, Grammar, run_program, say
from pytest_msdump.capabilities.convert import prototxt_command as prototxt
from pytest_msdump.core.escape import shell_line

_PROGRAM = "inplace_layer_process"

GRAMMAR = Grammar(
    program=f"python -m pytest_msdump.compat.{_PROGRAM}",
    summary="Write new_NAME.prototxt beside a Caffe network: without in-place layers. Exit code 4: usage error.",
    flags=(Flag(("-i",), "file", "the network", "FILE", required=True),),
)


def _run(words: Sequence[str]) -> int:
    file = GRAMMAR.parse(words).values["file"]
    code = prototxt.run(argparse.Namespace(file=file, out=None, phase="TEST", reference=None))
    say(_PROGRAM, f"the same as: {shell_line(['msdump', 'prototxt', file])}")
    return code


main = partial(run_program, _PROGRAM, _run)

if __name__ == "__main__":
    raise SystemExit(main())
