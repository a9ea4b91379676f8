"""Workflow commands of GitHub Actions: what fails is shown beside the lines of a change.

References
----------
GitHub Docs, "Workflow commands for GitHub Actions", setting an error message; the escapes are those of
actions/toolkit, ``packages/core/src/command.ts``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_msdump.escape import github_command
from pytest_msdump.reporting.annotations import Annotation

__all__ = ["github_lines"]

# GitHub shows ten errors of a step, and passes over the others in silence.
_MOST = 10


def github_lines(found: Sequence[Annotation]) -> Iterator[str]:
    """Yield a line for each of the first ten, and one that counts the others.

    Parameters
    ----------
    found : sequence of Annotation
        Most important first. What is inherited from a cause that is told is counted only.
    """
    told = [one for one in found if not one.folded]
    for one in told[:_MOST]:
        file, line = one.place
        place = {} if file is None else {"file": file, "line": str(line)}
        yield github_command("error", {**place, "title": one.title}, "\n".join(one.lines))
    rest, folded = len(told[_MOST:]), len(found) - len(told)
    parts = [f"{rest} more failing"] if rest else []
    parts += [f"{folded} inherited"] if folded else []
    if parts:
        yield github_command("notice", {"title": "msdump"}, f"and {', '.join(parts)}; results.json has them all")
