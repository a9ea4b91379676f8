"""What one gate is: two dumps, who is paired, and what is allowed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_msdump.judging.policy import Policy
    from pytest_msdump.matching.align import Align
    from pytest_msdump.matching.entries import MapEntry
    from pytest_msdump.matching.selection import Selection

__all__ = ["ENV", "SideChoice", "Suite"]

# Instead of a directory: where MindSpore's own configuration says that dumps go.
ENV = "@env"


@dataclass(frozen=True, slots=True)
class SideChoice:
    """One side: its directory or file, and which of its coordinates to take.

    Parameters
    ----------
    path : Path
        Absolute; whether it exists is found out when it is opened.
    net : str, optional
        The one net to take.
    rank, graph, iteration : str, optional
        Specs such as ``"0|2-3"``, already checked; ``None`` = all.
    """

    path: Path
    net: str | None = None
    rank: str | None = None
    graph: str | None = None
    iteration: str | None = None


@dataclass(frozen=True, slots=True)
class Suite:
    """One gate with everything resolved: command line over suite file over ini over defaults. Can be pickled.

    Parameters
    ----------
    name : str
        How messages and reports call it.
    file : Path, optional
        The suite file or pyproject.toml it was read from.
    left, right : SideChoice
        The run under test, and its reference.
    entries : tuple of MapEntry
        The file's ``[[msdump.map]]``, in its order.
    align : Align
        Who meets whom across differing coordinates.
    selection : Selection
        Which operators, tensors and coordinates are compared.
    left_format, right_format : str, optional
        A side's axis order for 4-D tensors.
    policy : Policy
        Profile, rules, known drift and command-line limits.
    min_coverage : float, optional
        Least share of right tensors that must have a partner, 0 to 1.
    granularity : str
        ``"op"`` or ``"tensor"``: what one test item is.
    report : tuple of str
        Kinds of report to write.
    report_dir : Path
        Where to.
    graph_files : tuple of Path
        Graphs kept outside the dump tree.
    detail : int
        How many failing tensors are written element by element.
    spread : str
        Of which tensors small arrays tell how errors are spread: ``"none"``, ``"failing"`` or ``"all"``.
    jobs : int
        How many pairs are measured side by side.
    cache : str
        How records of earlier runs are found: ``"off"``, ``"files"`` or ``"content"``.
    allow_incomplete : bool
        Whether recordings that have not ended are compared as they are.
    fusion, quant_fusion, close_fusion : Path, optional
        Rule files: the left side's compiled model, what quantisation made of the original one, and the right side's
        model compiled with fusion off.
    """

    name: str
    file: Path | None
    left: SideChoice
    right: SideChoice
    entries: tuple[MapEntry, ...]
    align: Align
    selection: Selection
    left_format: str | None
    right_format: str | None
    policy: Policy
    min_coverage: float | None
    granularity: str
    report: tuple[str, ...]
    report_dir: Path
    graph_files: tuple[Path, ...]
    detail: int = 0
    spread: str = "none"
    jobs: int = 1
    cache: str = "off"
    allow_incomplete: bool = False
    fusion: Path | None = None
    quant_fusion: Path | None = None
    close_fusion: Path | None = None
