"""What releases of ONNX Runtime, and two of MindSpore, change in small models.

``python -m benchmarks.upgrades OUT [--python PY] [--json]`` needs onnx here, and a package index or a full cache.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

from pytest_msdump.cli import main as main_of_msdump

_HERE = Path(__file__).parent
MODELS = ("convolutions", "attention", "recurrent", "elementwise")
RELEASES = (
    *("1.17.3", "1.18.1", "1.19.2", "1.20.1", "1.21.1", "1.22.1", "1.23.2", "1.24.4"),
    *("1.25.1", "1.26.0", "1.27.0", "1.28.0", "1.29.0", "1.30.0", "1.31.1", "1.32.0"),
)
MINDSPORE = ("2.9.0", "2.10.0")
_PACKAGES = ("onnx==1.17.0", "numpy<2")


def history(out: Path, name: str, program: str, releases: tuple[str, ...], python: str, package: str) -> dict[str, Any]:
    """Return the document of ``msdump upgrade --each`` for a model."""
    words = ["upgrade", "--each", "--json", "--python", python, "--report-dir", str(out / name)]
    words += ["--old", f"{package}=={releases[0]}", "--new", f"{package}=={releases[-1]}"]
    words += ["--releases", ",".join(releases)]
    if package == "onnxruntime":
        words += [word for one in _PACKAGES for word in ("--with", one)]
    os.environ["MODEL"] = name
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        main_of_msdump([*words, "--", "python", str(_HERE / program)])
    found: dict[str, Any] = json.loads(printed.getvalue())
    return found


def rows(found: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return by operator and release the verdicts of what a release changes by itself."""
    table: dict[str, dict[str, str]] = {}
    for step in found["steps"]:
        for change in step["changes"]:
            if change["verdict"] != "inherited":
                table.setdefault(f"{change['operator']} ({change['op_type']})", {})[step["new"]] = change["verdict"]
    return table


def main() -> None:
    """Try each release on each model, and print what changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--models", default=",".join((*MODELS, *(f"mindspore-{name}" for name in MODELS))))
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parsed = parser.parse_args()
    documents = {}
    for name in parsed.models.split(","):
        if name.startswith("mindspore-"):
            found = history(parsed.out, name, "mindspore_nets.py", MINDSPORE, parsed.python, "mindspore")
        else:
            found = history(parsed.out, name, "models.py", RELEASES, parsed.python, "onnxruntime")
        documents[name] = found
        if not parsed.json:
            tensors = max((step["tensors"] for step in found["steps"]), default=0)
            head = f"{name}: {len(found['tried'])} releases, {tensors} tensors"
            print(f"{head}, exit code {found['exit_code']}", flush=True)
            for operator, cells in rows(found).items():
                said = ", ".join(f"{release.partition('==')[2]} {verdict}" for release, verdict in cells.items())
                print(f"  {operator:<34}{said}")
            for release, why in found["skipped"].items():
                print(f"  skipped {release}: {why}")
    if parsed.json:
        print(json.dumps(documents, indent=2))


if __name__ == "__main__":
    main()
