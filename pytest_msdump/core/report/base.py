"""What a kind of report of another package is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from pytest_msdump.core.model.report import Report


class ReportKind(ABC):
    """One kind of report. Another package extends it and names it in the entry-point group ``pytest_msdump.report``.

    Attributes
    ----------
    name : str
        The word for it in ``--msdump-report``, also the name of its entry point.
    file : str
        Name of the file in the report directory. One of an earlier run is removed before a run begins.
    """

    name: ClassVar[str]
    file: ClassVar[str]

    @abstractmethod
    def write(self, report: Report, directory: Path) -> Path:
        """Write `file` into `directory`, whole or not at all, and return its path.

        `storage.files.write_file` does so, and makes the directory. Names in a report come from dumps: `escape` has a
        function for each place they may be written to.

        Raises
        ------
        MsdumpError
            It cannot be written; the text says which file.
        """
