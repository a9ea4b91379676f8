"""Sections that capabilities add to the page: tables and curves, which are seen where no program may run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, floor, isfinite, log10

from pytest_msdump.capabilities.html.words import PAGE
from pytest_msdump.core import ports
from pytest_msdump.core.escape import html_text
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.report.base import Curve, Section
from pytest_msdump.core.text import Message, number, say

# What is added stands there in both languages, of which the page shows its own.
STYLE = """
section.added { max-width: 75rem; }
body > section.added { margin: 1rem auto; padding: 0 1rem; }
html[lang="en"] section.added[lang="zh-CN"], html[lang="zh-CN"] section.added[lang="en"] { display: none; }
.added thead + tbody td { white-space: nowrap; overflow-wrap: normal; }
.added details .wide { max-height: 26rem; overflow: auto; }
.added thead th { position: sticky; top: 0; background: var(--back); }
.added table { font-variant-numeric: tabular-nums; }
.added tr.marked td { background: var(--fail-back); color: var(--fail); font-weight: 600; }
.added summary { cursor: pointer; color: var(--soft); font-size: 13px; }
.curve { display: block; width: 100%; max-width: 60rem; background: var(--panel); border: 1px solid var(--line); }
.curve text { font-size: 11px; fill: var(--soft); }
.curve .stem { stroke: var(--accent); stroke-width: 2; }
.curve .line { stroke: var(--line); }
.curve .bound { stroke: var(--fail); stroke-dasharray: 5 3; }
.curve .marked { stroke: var(--fail); stroke-width: 3; }
.curve text.marked { fill: var(--fail); stroke: none; font-weight: 600; }
@media (max-width: 760px) { .curve text { font-size: 20px; } }
"""
_WIDTH, _HEIGHT, _LEFT, _TOP, _FLOOR = 760, 200, 64, 26, 168
# Powers of ten from the least to the largest that is drawn; what is smaller stands on the floor.
_MOST_DECADES = 12


def sections(report: Report, number_of_result: int = 0) -> Iterator[str]:
    """Yield the sections of a report in each language."""
    for target in ports.values("SECTION").values():
        found = ports.load(target)(report)
        for one in found if isinstance(found, list) else () if found is None else (found,):
            for language, code in (("en", "en"), ("zh", "zh-CN")):
                inside = "".join(_parts(Section(*one), language))
                place = f' data-result="{number_of_result}"' if number_of_result else ""
                yield f'<section class="added" lang="{code}"{place}>{inside}</section>'


def _parts(one: Section, language: str) -> Iterator[str]:
    def text(value: Message | str) -> str:
        return html_text(say(value, language) if isinstance(value, Message) else value)

    yield f"<h2>{text(one.title)}</h2>"
    if one.curve is not None and one.curve.values:
        yield f'<p class="soft small">{text(one.curve.caption)}</p>{_drawn(one.curve, text)}'
    heads = "".join(f'<th scope="col">{text(head)}</th>' for head in one.heads)
    rows = "".join(
        f"<tr{' class=marked' if place == one.marked else ''}>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>"
        for place, row in enumerate(one.rows)
    )
    head = f"<thead><tr>{heads}</tr></thead>" if heads else ""
    kind = "" if heads else ' class="plain"'
    table = f'<div class="wide" tabindex="0"><table{kind}>{head}<tbody>{rows}</tbody></table></div>'
    note = f'<p class="soft small">{text(one.note)}</p>' if one.note is not None else ""
    if one.curve is None:
        yield note + table
    else:
        summary = PAGE["table_of"][language == "zh"].replace("{n}", str(len(one.rows)))
        yield f"<details{' open' if one.marked is not None else ''}><summary>{summary}</summary>{note}{table}</details>"


def _drawn(curve: Curve, text: Callable[[Message | str], str]) -> str:
    """Return stems over a floor, on a scale of powers of ten."""
    above = [value for value in (*curve.values, curve.limit or 0.0) if isfinite(value) and value > 0]
    high = max(ceil(log10(max(above, default=1.0))), -300)
    low = max(min(floor(log10(min(above, default=0.1))), high - 1), high - _MOST_DECADES)
    step = (_WIDTH - _LEFT - 8) / len(curve.values)

    def x(place: int) -> float:
        return round(_LEFT + (place + 0.5) * step, 1)

    def y(value: float) -> float:
        share = 1.0 if value > 10.0**high else (log10(value) - low) / (high - low) if value > 0 else 0.0
        return round(_FLOOR - max(0.0, share) * (_FLOOR - _TOP), 1)

    parts = []
    for power in range(low, high + 1, max(1, -(-(high - low) // 4))):
        at = y(10.0**power)
        parts += [f'<line class="line" x1="{_LEFT}" x2="{_WIDTH}" y1="{at}" y2="{at}"/>']
        parts += [f'<text x="{_LEFT - 6}" y="{at + 4}" text-anchor="end">1e{power}</text>']
    for place, value in enumerate(curve.values):
        kind = "stem marked" if place == curve.marked else "stem"
        # What is 0 has a foot.
        line = f'x1="{x(place)}" x2="{x(place)}" y1="{_FLOOR}" y2="{min(y(value), _FLOOR - 2)}"'
        title = html_text(f"{place * curve.step}: {number(value, 3)}")
        parts.append(f'<line class="{kind}" {line}><title>{title}</title></line>')
    if curve.limit is not None and curve.limit > 0:
        at = y(curve.limit)
        parts.append(f'<line class="bound" x1="{_LEFT}" x2="{_WIDTH}" y1="{at}" y2="{at}"/>')
    last = len(curve.values) - 1
    ticks = [(place, text(name)) for place, name in curve.ticks] or [(0, "0")]
    for place, name in ticks:
        at = round(_LEFT + place * step, 1)
        parts.append(f'<line class="line" x1="{at}" x2="{at}" y1="{_TOP}" y2="{_FLOOR + 6}"/>')
        parts.append(f'<text x="{at + 2}" y="{_FLOOR + 22}">{name}</text>')
    if not curve.ticks:
        parts.append(f'<text x="{_WIDTH}" y="{_FLOOR + 22}" text-anchor="end">{last * curve.step}</text>')
    if curve.marked is not None and curve.label is not None:
        at, anchor = x(curve.marked), "end" if curve.marked > last / 2 else "start"
        parts.append(f'<text class="marked" x="{at}" y="{_TOP - 8}" text-anchor="{anchor}">{text(curve.label)}</text>')
    inside, caption = "".join(parts), text(curve.caption)
    return f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{caption}">{inside}</svg>'
