"""The files of a run: what stands there while it goes on, what is written at its end, and what is known of the run."""

from __future__ import annotations

import re
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pytest_msdump.core.compare.assemble import coverage_of
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.escape import shell_line
from pytest_msdump.core.limits.policy import Policy
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.registry import installed_version
from pytest_msdump.core.report.base import file_kinds, remove_reports, write_kind
from pytest_msdump.core.report.json_report import write_json
from pytest_msdump.core.storage.files import open_regular

# SHA-1 or SHA-256.
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MOST_GIT_BYTES = 1 << 22


def start_report(plan: Plan, directory: Path) -> None:
    """Replace the reports of an earlier run: results.json says that this one has not ended, other files are removed."""
    kinds = file_kinds(plan.suite.options["report"])
    if not kinds:
        return
    try:
        keep = write_json(_not_ended(plan), directory).name if "json" in kinds else ""
    except MsdumpError:
        keep = ""
    remove_reports(directory, kinds, keep=keep)


def _not_ended(plan: Plan) -> Report:
    left, right = plan.sides
    return Report(
        left=left,
        right=right,
        profile=plan.suite.policy.profile,
        limits=policy_entry(plan.suite.policy),
        coverage=coverage_of(plan.pairing, plan.left, plan.right, min_coverage=plan.suite.options["min_coverage"]),
        rerun=rerun_arguments(plan),
        ended=False,
        golden=plan.further.get("golden"),
        third=plan.further.get("third"),
    )


def write_report(report: Report, kinds: tuple[str, ...], directory: Path, *, root: Path | None = None) -> list[Path]:
    """Write some kinds of report into `directory` and return the files."""
    return [file for kind in kinds for file in write_kind(kind, [report], directory, root)]


def policy_entry(policy: Policy) -> dict[str, Any]:
    """Return what results.json keeps of the policy: where limits come from; the limits themselves stand in records."""
    return {
        "nan": policy.nan,
        "threshold": dict(policy.thresholds),
        "rules": [rule.label for rule in policy.rules],
        "known_drift": [drift.label for drift in policy.known_drift],
        **({"limits_file": policy.limits.name} if policy.limits else {}),
    }


def rerun_arguments(plan: Plan) -> tuple[str, ...]:
    """Return the arguments with which ``msdump compare`` compares the same two dumps by the same rules."""
    suite, extras = plan.suite, plan.extras
    start = ("--config", suite.file) if suite.file else (suite.left.path, suite.right.path)
    # FOLDER/format_convert/FILE or FOLDER/algorithm/FILE; other code made the dumps.
    compares = bool(extras.converters or extras.algorithms)
    code = [f"--user-code={extras.files[0].absolute().parents[1]}"] if compares else []
    return (*map(str, start), *suite.typed, *code)


def run_facts() -> dict[str, str]:
    """Return what is known of this run for results.json: date, release, commit of the working directory, command."""
    program = Path(sys.argv[0])
    words = ["python", "-m", program.parent.name] if program.name == "__main__.py" else [program.name]
    found = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "version": installed_version("pytest-msdump"),
        "commit": _commit(),
        "command": shell_line([*words, *sys.argv[1:]]),
    }
    return {key: value for key, value in found.items() if value}


def _commit() -> str:
    """Return the commit that Git has checked out here, as its files say; empty where there is no repository."""
    here = Path.cwd()
    found = next((folder / ".git" for folder in (here, *here.parents) if (folder / ".git").exists()), None)
    if found is None:
        return ""
    # In a worktree or a submodule it is a file that names the folder; branches are then in a common one.
    git = found.parent / _first_line(found).removeprefix("gitdir: ") if found.is_file() else found
    common = git / (_first_line(git / "commondir") or ".")
    head = _first_line(git / "HEAD")
    branch = head.removeprefix("ref: ")
    if branch == head:
        commit = head
    elif not (commit := _first_line(git / branch) or _first_line(common / branch)):
        packed = (line.partition(" ") for line in _lines(common / "packed-refs"))
        commit = next((one for one, _, name in packed if name == branch), "")
    return commit if _COMMIT.fullmatch(commit) else ""


def _first_line(file: Path) -> str:
    return next(iter(_lines(file)), "")


def _lines(file: Path) -> list[str]:
    """Return the lines of a small text; none where it cannot be read."""
    try:
        with open_regular(file) as stream:
            return stream.read(_MOST_GIT_BYTES).decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []
