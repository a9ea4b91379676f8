"""Tables of statistics as runs write them, computed by numpy and printed as streams of C++ print."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

PREFIX = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape"
DEFAULT = ("Max Value", "Min Value", "L2Norm Value")
ALL = ("Max Value", "Min Value", "Avg Value", "L2Norm Value")
# Releases 1.6 to 2.2: counts, no norm.
COUNTED = (
    "Max Value",
    "Min Value",
    "Avg Value",
    "Count",
    "Negative Zero Count",
    "Positive Zero Count",
    "NaN Count",
    "Negative Inf Count",
    "Positive Inf Count",
    "Zero Count",
)
DIGESTS = (*ALL, "MD5", "SHA1")


def cell(title: str, array: npt.NDArray[np.generic]) -> str:
    """One number of a tensor, as the column of this title has it."""
    values = np.asarray(array).astype(np.float64).ravel()
    finite = values[np.isfinite(values)]
    data = np.ascontiguousarray(array).tobytes()
    extremes = {"Max Value": np.max, "Min Value": np.min, "Avg Value": np.mean}
    if title in extremes:
        if not finite.size:
            return "null"
        found = extremes[title](finite)
        whole = array.dtype.kind in "iu" and title != "Avg Value"
        return str(int(found)) if whole else f"{found:g}"
    if title == "L2Norm Value":
        return f"{np.sqrt(np.sum(values * values)):g}"
    if title in ("MD5", "SHA1"):
        return hashlib.new(title.lower(), data).hexdigest()
    counts = {
        "Count": values.size,
        "Negative Zero Count": np.sum(finite < 0),
        "Positive Zero Count": np.sum(finite > 0),
        "NaN Count": np.sum(np.isnan(values)),
        "Negative Inf Count": np.sum(np.isneginf(values)),
        "Positive Inf Count": np.sum(np.isposinf(values)),
        "Zero Count": np.sum(finite == 0),
    }
    return str(int(counts[title]))


def row(op: str, array: npt.NDArray[np.generic], columns: Sequence[str], *, op_type: str = "Add", time: int = 0) -> str:
    """One row, with the comma that recent releases end it with."""
    shape = ",".join(map(str, array.shape))
    about = f'{op_type},{op},0,0,{1700000000000000 + time},output,0,{array.nbytes},{array.dtype.name},"({shape})"'
    return ",".join([about, *(cell(title, array) for title in columns), ""])


def write_statistics(
    root: Path,
    tensors: Sequence[tuple[str, npt.NDArray[np.generic]]],
    columns: Sequence[str] = ALL,
    *,
    iteration: int = 0,
) -> Path:
    """Write the ``statistic.csv`` of one iteration of graph 0 of rank 0 and return its path."""
    path = root / "rank_0" / "Net" / "0" / str(iteration) / "statistic.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [row(op, array, columns, time=100 * place) for place, (op, array) in enumerate(tensors)]
    path.write_text("".join(f"{line}\n" for line in (",".join([PREFIX, *columns]), *rows)), "utf-8")
    return path
