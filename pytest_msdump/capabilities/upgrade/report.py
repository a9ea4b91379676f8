"""What is said of an upgrade: lines, JSON, and the numerics changelog as Markdown and as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.upgrade.court import VERDICTS, Change, Judgement
from pytest_msdump.capabilities.upgrade.releases import History
from pytest_msdump.core.escape import html_text, markdown_code
from pytest_msdump.core.storage.files import in_utf8, write_file
from pytest_msdump.core.text import Message, Phrases, encode

_NAMED = 4
FILES = ("upgrade.md", "upgrade.html")
_VERSION = "=="
_STYLE = (
    "body{font:15px system-ui,sans-serif;margin:2rem}table{border-collapse:collapse}td,th{border:1px solid #8884;"
    "padding:.3rem .6rem;text-align:left}.wrong,.code{color:#b00020;font-weight:600}:root{color-scheme:light dark}"
)


def lines_of(step: Judgement, profile: str, say: Phrases) -> Iterator[str]:
    """Yield what there is to say of one pair of environments, the worst first."""
    about = {"old": step.old, "new": step.new, "differing": step.differing, "tensors": step.tensors}
    yield say("upgrade_head" if step.differing or step.changes else "upgrade_equal", **about)
    inherited = [change for change in step.changes if change.verdict == "inherited"]
    order = sorted(step.changes, key=lambda change: VERDICTS.index(change.verdict))
    for change in order:
        if change.verdict != "inherited":
            name = f"{change.operator} ({change.op_type})" if change.op_type else change.operator
            yield f"  {change.verdict:<15}{name}: {say.of(change.why)}{_size(change)}"
    if inherited:
        names = say.named((change.operator for change in inherited), _NAMED)
        yield "  " + say("upgrade_inherit", n=len(inherited), names=names)
        if not step.is_forced:
            yield "  " + say("upgrade_unforced")
    for code, listed in (("beyond", step.beyond), ("given", step.given)):
        if listed:
            yield "  " + say(f"upgrade_{code}", names=say.named(listed, _NAMED), profile=profile)
    for code, pairs in (("settings", step.settings), ("packages", step.packages)):
        if pairs and (step.changes or step.differing):
            yield "  " + say(f"upgrade_{code}", names=say.named(_pairs(pairs), 2 * _NAMED))


def _size(change: Change) -> str:
    return f" ({change.distance:.1e})" if change.distance else ""


def _pairs(pairs: Mapping[str, tuple[str, str]]) -> list[str]:
    return [f"{name} {old or '-'} > {new or '-'}" for name, (old, new) in pairs.items()]


def document(found: History) -> dict[str, Any]:
    """Return the one document of ``--json``."""
    return {
        "releases": list(found.releases),
        "tried": list(found.tried),
        "skipped": dict(found.skipped),
        "steps": [_step(step) for step in found.steps],
    }


def _step(step: Judgement) -> dict[str, Any]:
    return {
        "old": step.old,
        "new": step.new,
        "tensors": step.tensors,
        "differing": step.differing,
        "tried_by_themselves": step.is_forced,
        "counts": dict(Counter(change.verdict for change in step.changes)),
        "changes": [
            {
                "operator": change.operator,
                "op_type": change.op_type,
                "verdict": change.verdict,
                "relative_euclidean_distance": encode(change.distance),
                **change.why.entry,
            }
            for change in step.changes
        ],
        "beyond_limits": list(step.beyond),
        "not_given_the_same": list(step.given),
        "settings": {name: list(pair) for name, pair in step.settings.items()},
        "packages": {name: list(pair) for name, pair in step.packages.items()},
    }


def changelog(found: History) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Return releases, and for each operator that one of them changes by itself its verdict in each."""
    columns = [step.new for step in found.steps]
    rows: dict[str, list[str]] = {}
    for place, step in enumerate(found.steps):
        for change in step.changes:
            if change.verdict != "inherited":
                name = f"{change.operator} ({change.op_type})" if change.op_type else change.operator
                rows.setdefault(name, [""] * len(columns))[place] = change.verdict
    return [_short(name, columns) for name in columns], list(rows.items())


def _short(name: str, names: Sequence[str]) -> str:
    """Return a release without the name of its package, where all are of one."""
    packages = {one.partition(_VERSION)[0] for one in names if _VERSION in one}
    return name.partition(_VERSION)[2] if len(packages) == 1 and _VERSION in name else name


def markdown(found: History, say: Phrases) -> str:
    """Return the changelog as Markdown: releases as columns, operators as rows; only releases that change something."""
    columns, rows = changelog(found)
    used = [place for place in range(len(columns)) if any(cells[place] for _, cells in rows)]
    title = f"# {say('upgrade_title')}: {found.releases[0]} > {found.releases[-1]}"
    lines = [title, "", say("upgrade_tried", n=len(found.tried), total=len(found.releases))]
    lines += [f"* {say('upgrade_skipped', name=n, why=why)}" for n, why in found.skipped.items()]
    if rows:
        head = [say("upgrade_operator"), *(columns[place] for place in used)]
        lines += ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        lines += [f"| {markdown_code(name)} | {' | '.join(cells[p] for p in used)} |" for name, cells in rows]
    else:
        lines += ["", say("upgrade_fine")]
    return "\n".join(lines) + "\n"


def page(found: History, details: Iterable[str], say: Phrases) -> str:
    """Return the same as a page that opens offline, with every sentence of the terminal below."""
    columns, rows = changelog(found)
    head = "".join(f"<th>{html_text(one)}</th>" for one in (say("upgrade_operator"), *columns))
    body = "".join(
        f"<tr><td>{html_text(name)}</td>"
        + "".join(f'<td class="{one.replace(" ", "-")}">{html_text(one)}</td>' for one in cells)
        + "</tr>"
        for name, cells in rows
    )
    title = html_text(f"{say('upgrade_title')}: {found.releases[0]} > {found.releases[-1]}")
    text = "\n".join(html_text(line) for line in details)
    return (
        f'<!DOCTYPE html>\n<html lang="{"zh-CN" if say.language == "zh" else "en"}"><head><meta charset="utf-8">'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n"
        f"<table><tr>{head}</tr>{body}</table>\n<pre>{text}</pre></body></html>\n"
    )


def write(found: History, details: Sequence[str], folder: Path, say: Phrases) -> list[Path]:
    """Write both files of the changelog."""
    texts = (markdown(found, say), page(found, details, say))
    return [write_file(folder, name, in_utf8(text)) for name, text in zip(FILES, texts, strict=True)]


def closing(code: int) -> Message:
    """Return the last line."""
    return Message({0: "upgrade_fine", 1: "upgrade_bad"}.get(code, "upgrade_unknown"))
