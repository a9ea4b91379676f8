"""``python -m pytest_msdump.compat.inplace_layer_process -i IN [-o OUT]``: the script's command line.

References: Ascend "Accuracy Comparison Tool", "Preparing .npy Data of a Caffe Model", the script
``inplace_layer_process.pyc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pytest_msdump.capabilities.compat.arguments import Flag, Grammar, run_msdump, run_program
from pytest_msdump.capabilities.convert import prototxt_command

_PROGRAM = "inplace_layer_process"

GRAMMAR = Grammar(
    program=f"python -m pytest_msdump.compat.{_PROGRAM}",
    summary="Write a Caffe network without in-place layers. Exit code 4: usage error.",
    flags=(
        Flag(("-i",), "file", "the network", "FILE", required=True),
        Flag(("-o",), "out", "the file to write; new_NAME.prototxt beside it by default", "FILE"),
    ),
)


def _run(words: Sequence[str]) -> int:
    arguments = GRAMMAR.parse(words)
    out = arguments.get("out")
    return run_msdump(
        _PROGRAM, prototxt_command, "prototxt", [arguments.values["file"]], [("--out", out)] if out else []
    )


main = partial(run_program, _PROGRAM, _run)

if __name__ == "__main__":
    raise SystemExit(main())
