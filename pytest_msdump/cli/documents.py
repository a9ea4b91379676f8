"""``--json``: one document on standard output and nothing else, of every command, and of what stops it.

A command returns its exit code. One that has more to tell returns an `Outcome`, an exit code that knows its document;
of others the document has the lines that they print. ``schemas/NAME.json`` describes each document.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from pytest_msdump.cli.output import Outcome
from pytest_msdump.core.escape import printed_json, shell_line
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.model.tensor import COORDINATES, module_of
from pytest_msdump.core.report.coverage import counts, coverage_problems
from pytest_msdump.core.report.failure import one_line
from pytest_msdump.core.report.summary import lead
from pytest_msdump.core.text import ENGLISH, Phrases, encode

SCHEMA_VERSION = 1
# A verdict is at most so large, however many tensors and however long their names are.
_MOST_VERDICT_BYTES = 4096
_MOST_CAUSES = 5
# Envelope and a command's name.
_ENVELOPE_BYTES = 160
_LONGEST = (400, 160, 80, 40)


def run_command(parsed: argparse.Namespace) -> int:
    """Run a command and print its document; return the exit code. What it prints for people goes nowhere else."""
    printed = StringIO()
    with _nothing_else(printed):
        code = parsed.run(parsed)
    if isinstance(code, Outcome):
        _print(code.name, parsed.command, code, code.document())
    else:
        _print("lines", parsed.command, code, {"lines": printed.getvalue().splitlines()})
    return int(code)


def print_error(words: Sequence[str], code: int, slug: str, text: str) -> None:
    """Print what stops a command: `text` says what happened and, behind the last semicolon, what to do."""
    command = words[0] if words and not words[0].startswith("-") else None
    message, _, to_do = text.rpartition("; ")
    to_do = to_do if message else f"see msdump {command or ''}".rstrip() + " --help"
    _print("error", command, code, {"error": {"code": slug, "message": message or text, "do": to_do}})


def _print(name: str, command: str | None, code: int, values: Mapping[str, Any]) -> None:
    head = {"schema_version": SCHEMA_VERSION, "document": name, "command": command, "exit_code": int(code)}
    sys.stdout.write(f"{printed_json({**head, **values})}\n")
    sys.stdout.flush()


@contextmanager
def _nothing_else(printed: StringIO) -> Iterator[None]:
    """Take what is printed meanwhile; of this process also what programs in C print, which goes to standard error."""
    if sys.__stdout__ is None or sys.stdout is not sys.__stdout__:
        with redirect_stdout(printed):
            yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with redirect_stdout(printed):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def verdict_document(report: Report, files: Sequence[Path] = ()) -> dict[str, Any]:
    """Return the verdict of a report: counts, coverage, what started it and where that is, and what to type next."""
    failing = [record for record in report.records if record.fails]
    causes = [record for record in report.records if record.role == "cause"]
    shown = (causes or failing)[:_MOST_CAUSES]
    problems = coverage_problems(report)
    word = "fail" if failing or (problems and report.ended) else "pass" if report.complete else "incomplete"
    coverage = report.coverage
    values: dict[str, Any] = {
        "verdict": word,
        "sentence": lead(report),
        "left": report.left.directory,
        "right": report.right.directory,
        "profile": report.profile,
        "counts": counts(report),
        "coverage": {
            "value": coverage.value,
            "right_paired": coverage.right_paired,
            "right_total": coverage.right_total,
            "problems": list(problems),
        },
        "first_failing": {"order": failing[0].order, "tensor": failing[0].left.address} if failing else None,
        "causes": [_failure(record, ENGLISH.calling(report.left.shown)) for record in shown] if causes else [],
        "more_causes": max(0, len(causes) - _MOST_CAUSES),
        "next": [shell_line(report.again(shown[0].left.key.op.label))] if shown and report.rerun else [],
        "files": [os.path.relpath(file) for file in files],
    }
    return _fitted(values)


def _failure(record: Record, say: Phrases) -> dict[str, Any]:
    source, region = record.line, record.role_why and record.role_why.region
    worst = next((one for one in record.verdict.findings if one.metric is not None and one.value is not None), None)
    number = worst and {"metric": worst.metric, "value": encode(worst.value), "limit": encode(worst.limit)}
    return {
        "order": record.order,
        "tensor": record.left.address,
        "partner": record.right.address,
        "at": {name: value for name in COORDINATES if (value := getattr(record.left.at, name)) is not None},
        "name": say.name(record.left.key.op.label),
        "module": (region.module if region else module_of(record.how, record.by)) or None,
        "op_type": record.left.op_type,
        "file": source and source.file,
        "line": source and source.line,
        "lines": (region.lines if region else "") or None,
        "verdict": record.verdict.outcome,
        "role": record.role,
        "number": number,
        "sentence": one_line(record, say),
        "why": record.role_reason or None,
    }


def _fitted(values: dict[str, Any]) -> dict[str, Any]:
    """Return a document of at most so many bytes: fewer causes, then shorter texts, then no command, which is no text.

    What is left out is counted, and a text that was cut ends in an ellipsis.
    """

    def is_small() -> bool:
        return len(printed_json(values)) <= _MOST_VERDICT_BYTES - _ENVELOPE_BYTES

    for longest in _LONGEST:
        kept = {name: values[name] for name in ("next", "files")}
        values = {**_cut(values, longest), **kept}
        while len(values["causes"]) > 1 and not is_small():
            values["causes"].pop()
            values["more_causes"] += 1
        if is_small():
            return values
    return {**values, "next": [], "files": values["files"] if len(printed_json(values["files"])) < 400 else []}


def _cut(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= longest else f"{value[: longest - 1]}…"
    if isinstance(value, dict):
        return {name: _cut(one, longest) for name, one in value.items()}
    return [_cut(one, longest) for one in value] if isinstance(value, list) else value
