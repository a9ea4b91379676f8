"""What a recording holds, by numpy and its manifest alone."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np


def manifest_of(recording: Any) -> dict[str, Any]:
    """The manifest of a recording, or of a folder."""
    directory = getattr(recording, "directory", recording)
    return json.loads((directory / "msdump.json").read_text("utf-8"))


def keys_of(recording: Any) -> list[tuple[str, str, int]]:
    """True name, ``input`` or ``output`` and slot of each tensor, in the order of writing."""
    tensors = manifest_of(recording)["tensors"].values()
    return [(entry["op"], entry.get("io", "output"), entry.get("slot", 0)) for entry in tensors]


def arrays_of(recording: Any) -> dict[tuple[str, str, int], list[Any]]:
    """Arrays by true name, direction and slot, in the order of writing."""
    directory = Path(getattr(recording, "directory", recording))
    found: defaultdict[tuple[str, str, int], list[Any]] = defaultdict(list)
    for key, file in zip(keys_of(directory), manifest_of(directory)["tensors"], strict=True):
        found[key].append(np.load(directory / file))
    return found


def outputs_of(recording: Any) -> dict[str, list[Any]]:
    """Arrays by true name, of output 0 alone."""
    return {name: arrays for (name, io, slot), arrays in arrays_of(recording).items() if (io, slot) == ("output", 0)}
