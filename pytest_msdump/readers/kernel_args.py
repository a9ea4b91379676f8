"""Arguments of a kernel, ``OP_TYPE.OP.json`` beside its tensors.

References
----------
MindSpore "Dump" documentation, `save_kernel_args` (Ascend, O0 and O1): an object of texts. MindSpore 2.10 on CPU writes
none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pytest_msdump.model.arguments import KernelArguments
from pytest_msdump.model.tensor import TensorRef, mangle
from pytest_msdump.readers.sidefiles import read_text

__all__ = ["parse_kernel_args", "read_kernel_args"]

_MAX_BYTES = 2**20
_MOST_ARGUMENTS = 1000
_LONGEST_VALUE = 1000


def parse_kernel_args(text: str) -> Mapping[str, str]:
    """Return arguments by name.

    Raises
    ------
    ValueError
        The text is no JSON object.

    Examples
    --------
    >>> parse_kernel_args('{"transpose_a": "False", "dims": [1, 2]}')
    {'transpose_a': 'False', 'dims': '[1, 2]'}
    """
    try:
        values = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested beyond measure") from error
    if not isinstance(values, dict):
        raise ValueError("no object")
    return {name: _text(value) for name, value in list(values.items())[:_MOST_ARGUMENTS]}


def read_kernel_args(ref: TensorRef) -> KernelArguments | None:
    """Read the arguments of the operator that a tensor belongs to.

    Parameters
    ----------
    ref : TensorRef
        Only the directory of its file is looked into.

    Returns
    -------
    KernelArguments or None
        ``None`` where none were saved; without values, and with a note, where they cannot be read.
    """
    path = _path(ref)
    if path is None or not path.exists():
        return None
    text, note = read_text(path, _MAX_BYTES)
    if note:
        return KernelArguments(path.name, note=note)
    try:
        return KernelArguments(path.name, parse_kernel_args(text))
    except ValueError:
        return KernelArguments(path.name, note="is not a JSON object of arguments")


def _path(ref: TensorRef) -> Path | None:
    """The file's path. A name from a table may hold slashes, and leads nowhere else when it is mangled."""
    op = ref.key.op
    if not op.op_type or not op.name:
        return None
    name = f"{mangle(op.op_type)}.{mangle(op.name)}.json"
    # Longer ones no file system takes.
    return ref.source.path.parent / name if len(name.encode(errors="replace")) <= 255 and "\0" not in name else None


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
