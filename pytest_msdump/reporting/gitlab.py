"""gl-code-quality.json: what fails, as GitLab shows it in a merge request.

References
----------
GitLab Docs, "Code Quality", implement a custom tool: the subset of Code Climate's format that GitLab reads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_msdump.reporting.annotations import Annotation
from pytest_msdump.reporting.atomic import write_file

__all__ = ["code_quality", "write_code_quality"]

_SEVERITIES = {"coverage": "critical", "cause": "critical", "unknown": "major", "inherited": "minor"}
# GitLab requires a path; one that no file has leads nowhere, which is true.
_NO_FILE = "msdump"


def write_code_quality(found: Sequence[Annotation], directory: Path) -> Path:
    """Write gl-code-quality.json into `directory` and return its path.

    Raises
    ------
    MsdumpError
        The file cannot be written.
    """
    text = json.dumps(code_quality(found), indent=1, allow_nan=False)
    return write_file(directory, "gl-code-quality.json", text.encode("ascii") + b"\n")


def code_quality(found: Sequence[Annotation]) -> list[dict[str, Any]]:
    """Return an entry for each failure; GitLab tells by `fingerprint` which are new in a merge request.

    Parameters
    ----------
    found : sequence of Annotation
        Most important first.
    """
    return [
        {
            "description": "; ".join(one.lines),
            "check_name": f"msdump.{'coverage' if one.kind == 'coverage' else one.verdict}",
            "fingerprint": _fingerprint(one.identity),
            "severity": _SEVERITIES[one.kind],
            "location": {"path": one.place[0] or _NO_FILE, "lines": {"begin": one.place[1]}},
        }
        for one in found
    ]


def _fingerprint(identity: tuple[str, ...]) -> str:
    # As JSON, since a name may hold any character that could be put between the parts.
    return hashlib.sha256(json.dumps(identity).encode("ascii")).hexdigest()
