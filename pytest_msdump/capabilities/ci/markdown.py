"""summary.md: the result on half a page, for the summary of a CI job and for comments on a change."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.escape import markdown_code, shell_line
from pytest_msdump.core.limits.permissions import permission_sentences
from pytest_msdump.core.model.comparison import FAILING, OUTCOMES
from pytest_msdump.core.model.report import Report, SideInfo
from pytest_msdump.core.report.base import ReportKind, summarisers
from pytest_msdump.core.report.coverage import (
    counts,
    coverage_problems,
    incomplete_sides,
    partial_runs,
    percent,
    sentence_on_unseen,
    sentences_on_uncompared_tensors,
)
from pytest_msdump.core.report.failure import one_line
from pytest_msdump.core.storage.files import in_utf8, write_file
from pytest_msdump.core.text import ENGLISH

_LISTED, _CAUSES = 10, 5
_TITLES = {name: name for name in OUTCOMES} | {"not_run": "not run"}


class MarkdownReport(ReportKind):
    """``md``: summary.md, also where a job of GitHub shows it."""

    name, file = "md", "summary.md"

    def write(self, report: Report, directory: Path) -> Path:
        """Write summary.md into `directory`."""
        path = write_file(directory, self.file, in_utf8(markdown_text(report)))
        if shown := os.environ.get("GITHUB_STEP_SUMMARY"):
            append_summary(report, Path(shown))
        return path


def append_summary(report: Report, file: Path) -> None:
    """Append the text to a file that a CI service shows, ``$GITHUB_STEP_SUMMARY``."""
    try:
        with file.open("ab") as stream:
            stream.write(in_utf8(markdown_text(report)) + b"\n")
    except OSError as error:
        raise MsdumpError(
            f"the summary cannot be appended to {file}: {error.strerror or error}; "
            "that is what GITHUB_STEP_SUMMARY names; unset it, or ask for no md"
        ) from error


def markdown_text(report: Report) -> str:
    """Return the summary as Markdown; names stand in code spans, so that nothing in them is markup."""
    return "\n".join([*_verdict(report), *_failing(report), *_compared(report), ""])


def _verdict(report: Report) -> Iterator[str]:
    """Yield the heading, the counts, and what is wrong with the whole."""
    found, problems = counts(report), coverage_problems(report)
    failing = sum(found[verdict] for verdict in FAILING)
    word = "FAIL" if failing or (problems and report.ended) else "PASS" if report.complete else "INCOMPLETE"
    counted = [f"{found[verdict]} {title}" for verdict, title in _TITLES.items() if found[verdict]]
    if counted and report.complete and not found["error"]:
        counted.append(ENGLISH("share_compared", share=percent(report.coverage.value)))
    yield f"## msdump: {word}"
    yield ""
    total = len(report.records)
    yield f"{total} {'tensor' if total == 1 else 'tensors'}: {', '.join(counted) or 'nothing was compared'}."
    if unseen := sentence_on_unseen(report.records):
        yield f"\n{unseen}."
    yield from (f"\n{markdown_code(sentence)}" for sentence in permission_sentences(report))
    yield from (
        f"\n**{'Coverage' if report.ended else 'Incomplete'}:** {markdown_code(problem)}" for problem in problems
    )
    yield from (f"\n{markdown_code(sentence)}" for sentence in sentences_on_uncompared_tensors(report))
    yield from (f"\n**{sentence}**" for sentence in (*incomplete_sides(report), *partial_runs(report)))


def _failing(report: Report) -> Iterator[str]:
    """Yield the causes where they are known, else the first failures in execution order."""
    failing = [record for record in report.records if record.fails]
    causes = [record for record in report.records if record.role == "cause"]
    listed = causes or failing
    if not listed:
        return
    yield ""
    by = f" (found by {report.localised_by})" if report.localised_by else ""
    yield f"### What started it{by}" if causes else "### What fails first"
    yield ""
    say = ENGLISH.calling(report.left.shown)
    yield "| op | operator | line | why | tensor |"
    yield "|---:|---|---|---|---|"
    most = _CAUSES if causes else _LISTED
    for record in listed[:most]:
        source = record.line
        line = markdown_code(source.place) if source else ""
        why = markdown_code(record.role_reason) if record.role_reason else ""
        name, tensor = markdown_code(say.name(record.left.key.op.label)), markdown_code(one_line(record, say))
        yield f"| {record.order + 1} | {name} | {line} | {why} | {tensor} |"
    if len(listed) > most:
        yield ""
        yield f"and {len(listed) - most} more"
    if failing and causes and failing[0] is not causes[0]:
        yield ""
        yield f"The first to fail is op {failing[0].order + 1}: {markdown_code(one_line(failing[0], say))}"
    roles = Counter(record.role for record in failing)
    sentences = [f"{roles['inherited']} inherited the error."] if causes and roles["inherited"] else []
    accumulated = next((one for one in failing if one.role == "accumulated" and not one.causes), None)
    if accumulated is not None:
        sentences.append(f"In {roles['accumulated']} it accumulated: {markdown_code(accumulated.role_reason)}.")
    sentences += [f"{text}." for teller in summarisers() for text in teller.caveats(report, ENGLISH)]
    for text in sentences:
        yield ""
        yield text
    if report.rerun:
        yield "\nCompare just the first of them again:\n"
        # Not a span: a bar inside of a command stays one.
        yield f"```sh\n{shell_line(report.again(listed[0].left.key.op.label))}\n```"


def _compared(report: Report) -> Iterator[str]:
    """Yield both sides, how much was matched, and the profile."""
    coverage = report.coverage
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| left, under test | {_side(report.left)} |"
    yield f"| right, reference | {_side(report.right)} |"
    yield f"| matched | {coverage.right_paired} of {coverage.right_total} right tensors |"
    yield f"| profile | {markdown_code(report.profile)} |"


def _side(side: SideInfo) -> str:
    known = ", ".join(f"{name} {value}" for name, value in side.labels.items())
    return markdown_code(side.directory) + (f" {markdown_code(known)}" if known else "")
