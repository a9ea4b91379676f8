"""What a dump that this package wrote says of itself: the run, and of each file what its name does not tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["JOURNAL_FILE", "MANIFEST_FILE", "SCHEMA_VERSION", "Manifest", "TensorEntry"]

MANIFEST_FILE = "msdump.json"
# Beside it while a recording goes on: a line of JSON for each file. Without a complete manifest, the dump is not whole.
JOURNAL_FILE = "msdump.journal"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One file.

    Parameters
    ----------
    op : str
        The operator's true name.
    io : str
        ``"input"`` or ``"output"``.
    slot : int
        Which of the operator's inputs or outputs.
    dtype : str, optional
        The logical type where the file's own header does not tell: bfloat16, the 8-bit floats, complex32.
    op_type : str, optional
        E.g. ``"Conv2d"``, ``"Parameter"``.
    line : str, optional
        ``path:line`` of the program that made it.
    """

    op: str
    io: str = "output"
    slot: int = 0
    dtype: str | None = None
    op_type: str | None = None
    line: str | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of ``msdump.json``.

    Parameters
    ----------
    framework, version, device : str
        Who ran the model, e.g. ``"torch"``, ``"2.13.0"``, ``"cpu"``; empty when nobody said.
    dtype_policy : str
        E.g. ``"autocast bfloat16"``; empty for the model's own types.
    seeds : mapping of str to int
        By what they seed.
    inputs, weights : mapping of str to str
        Digest by name, see `capture.digests`.
    command : tuple of str
        What was started, as its arguments.
    time : str
        When the dump was finished: ISO 8601, UTC.
    complete : bool
        ``False`` from the start of a recording until it ends well.
    key : str
        Digest of everything the dump depends on, for a reference that is kept; empty otherwise.
    tensors : mapping of str to TensorEntry
        By path of the file below the dump's folder.
    """

    schema_version: int = SCHEMA_VERSION
    framework: str = ""
    version: str = ""
    device: str = ""
    dtype_policy: str = ""
    seeds: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    time: str = ""
    complete: bool = True
    key: str = ""
    tensors: Mapping[str, TensorEntry] = field(default_factory=dict)
