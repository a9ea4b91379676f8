"""Writes ``msdump.json``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

from pytest_msdump.model.manifest import MANIFEST_FILE, Manifest

__all__ = ["put", "write_manifest"]

# What an entry need not say: what it means when it is left out.
_SILENT: dict[str, Any] = {"io": "output", "slot": 0, "dtype": None, "op_type": None, "line": None}


def write_manifest(directory: Path, manifest: Manifest) -> Path:
    """Write `manifest` into `directory`, whole or not at all.

    Raises
    ------
    OSError
        It cannot be written.
    """
    values = asdict(manifest)
    for entry in values["tensors"].values():
        for name, default in _SILENT.items():
            if entry[name] == default:
                del entry[name]
    text = json.dumps(values, indent=1, sort_keys=False, ensure_ascii=False)
    return put(directory / MANIFEST_FILE, text.encode("utf-8", "backslashreplace"))


def put(path: Path, content: bytes) -> Path:
    """Write a file so that a reader sees the old one or the new one, never a half."""
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return path
