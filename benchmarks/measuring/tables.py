"""One case as text for a terminal and as values for JSON; tables of Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from measuring.figures import Case, Figure, Limit

__all__ = ["as_text", "as_values", "table"]

Rows = Sequence[Sequence[str]]


def as_text(case: Case) -> str:
    """Columns, the first to the left and all others to the right."""
    lines = [f"== {case.name}: {case.title}", *_aligned(_titles(case), _rows(case))]
    lines += [f"   {note}" for note in case.notes]
    lines += [
        f"{limit.number}. {limit.text}: limit {_bound(limit)}, measured {_measured(limit)}, {limit.verdict}"
        for limit in case.limits
    ]
    return "\n".join(lines)


def as_values(case: Case) -> dict[str, Any]:
    """Every run of every program, and the limits."""
    return {
        "title": case.title,
        "pairs": case.pairs,
        "programs": {
            name: {
                "base": figure.base.program if figure.base else None,
                "runs": [sample._asdict() for sample in figure.samples],
                "median": {
                    "seconds": figure.seconds,
                    "cpu_seconds": figure.cpu_seconds,
                    "cpu_beyond": figure.cpu_beyond,
                    "peak_mib": figure.peak_mib,
                    "mib_beyond": figure.mib_beyond,
                },
            }
            for name, figure in case.figures.items()
        },
        "limits": [
            {
                "number": limit.number,
                "text": limit.text,
                "bound": limit.bound,
                "at_least": limit.at_least,
                "measured": limit.measured,
                "verdict": limit.verdict,
            }
            for limit in case.limits
        ],
        "notes": list(case.notes),
        "rates": dict(case.rates),
    }


def _titles(case: Case) -> list[str]:
    titles = ["program", "CPU s", "beyond start"]
    if case.pairs:
        titles.append("ns a pair")
    if case.floor:
        titles.append("× floor")
    return [*titles, "seconds", "peak MiB", "beyond start"]


def _rows(case: Case) -> list[list[str]]:
    floor = case.figures[case.floor].cpu_beyond if case.floor else None
    return [_row(figure, case.pairs, floor) for figure in case.figures.values()]


def _row(figure: Figure, pairs: int | None, floor: float | None) -> list[str]:
    beyond = [f"{figure.cpu_beyond:.3f}"]
    if pairs:
        beyond.append(f"{figure.cpu_beyond / pairs * 1e9:.2f}")
    if floor is not None:
        beyond.append(f"{figure.cpu_beyond / floor:.1f}")
    if figure.only_starts:
        beyond = [""] * len(beyond)
    peaks = [f"{figure.peak_mib:.0f}", f"{figure.mib_beyond:.0f}" if figure.base else ""]
    return [figure.program, f"{figure.cpu_seconds:.3f}", *beyond, f"{figure.seconds:.3f}", *peaks]


def _bound(limit: Limit) -> str:
    return f"{'≥' if limit.at_least else '≤'} {limit.bound:g} {limit.unit}"


def _measured(limit: Limit) -> str:
    return "—" if limit.measured is None else f"{limit.measured:.3g} {limit.unit}"


def _aligned(titles: Sequence[str], rows: Rows) -> list[str]:
    widths = [max(len(row[column]) for row in (titles, *rows)) for column in range(len(titles))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in (titles, *rows)
    ]


def table(titles: Sequence[str], rows: Rows) -> str:
    """Return a table of Markdown: the first column to the left, all others to the right."""
    lines = [titles, ["---", *["---:"] * (len(titles) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
