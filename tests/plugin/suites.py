"""Suite files made from the mapping files that came with the lenet dumps."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def write_suite(file: Path, lenet: Path, left: str, *, mapping: str = "mapping.toml", extra: str = "") -> Path:
    """Write a suite file that pairs a lenet run with the reference as its mapping says."""
    lines = ["[msdump]", f"left = '{lenet / left}'", f"right = '{lenet / 'reference'}'", extra]
    for entry in tomllib.loads((lenet / mapping).read_text("utf-8"))["entries"]:
        lines += [
            "[[msdump.map]]",
            f'left = "{entry["target_op"]}:{entry["target_io"]}:{entry["target_slot"]}"',
            f'right = "{entry["reference"]}:output:{entry["reference_output"]}"',
        ]
        if entry.get("reshape"):
            lines.append("reshape = true")
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file
