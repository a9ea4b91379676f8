"""The whole gate over two files or two folders, as `msdump compare` walks it."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json


class Answer(NamedTuple):
    """Exit code, all that was printed on one line, results.json (empty when none was written)."""

    code: int
    text: str
    results: dict[str, Any]

    @property
    def record(self) -> dict[str, Any]:
        """The only pair's record."""
        (record,) = self.results["tensors"]
        return dict(record)

    @property
    def metrics(self) -> dict[str, Any]:
        """The only pair's metrics."""
        return dict(self.record["metrics"])

    @property
    def sentences(self) -> str:
        """What is found of the only pair, in one text."""
        return "; ".join(finding["sentence"] for finding in self.record["findings"])

    @property
    def failed(self) -> set[str | None]:
        """The metrics whose limits the only pair does not meet; ``None`` for what is no metric."""
        found = [finding for finding in self.record["findings"] if finding["outcome"] in ("fail", "undefined", "error")]
        return {finding["metric"] for finding in found}


def ask(left: Path, right: Path, *arguments: str, reports: Path | None = None) -> Answer:
    """Compare two dumps or two files by the command; reports go beside the left side unless told otherwise."""
    reports = reports or left.parent / "reports"
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = main(["compare", str(left), str(right), "--report-dir", str(reports), *arguments])
    file = reports / "results.json"
    results = read_json(file) if file.is_file() else {}
    return Answer(code, " ".join(printed.getvalue().split()), results)


def ask_arrays(folder: Path, left: npt.ArrayLike, right: npt.ArrayLike, *arguments: str) -> Answer:
    """Compare two arrays through files."""
    np.save(folder / "left.npy", np.asanyarray(left))
    np.save(folder / "right.npy", np.asanyarray(right))
    return ask(folder / "left.npy", folder / "right.npy", *arguments)
