"""A real browser: Debian's Chromium, driven by Playwright. Where either is missing, these tests are skipped."""

from __future__ import annotations

import os
import shutil

import pytest
from report.big_results import NAMES, results

from pytest_msdump.capabilities.html.page import page
from pytest_msdump.core.model.record import Local, ReportedTensor
from pytest_msdump.core.model.report import Coverage, Report, SideInfo, SuggestedPartner, UnmatchedTensor
from pytest_msdump.core.report.record_json import LOCAL, from_json
from pytest_msdump.core.text import Message, say

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((found for name in PROGRAMS if (found := shutil.which(name))), None)


def _missing(what):
    """Where the browser is asked for, its absence is a failure."""
    if os.environ.get("MSDUMP_BROWSER"):
        pytest.fail(f"{what} is missing, and MSDUMP_BROWSER asks for it")
    pytest.skip(f"{what} is not installed")


@pytest.fixture(scope="session")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright")
    if CHROMIUM is None:
        _missing("chromium")
    with sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Pages by name: of five thousand tensors and of two hundred, with causes and edges, of a run that passes."""
    folder = tmp_path_factory.mktemp("pages")
    made = {
        "large": results(5000, names=NAMES, roles=True),
        "causes": results(200, failing=0.1, names=NAMES, roles=True),
        "passing": results(12, failing=0.0),
    }
    made["causes"]["tensors"][0]["spread"] = {
        "histogram": {"low": -7, "counts": [3, 40, 200, 90, 4]},
        "magnitude": {"low": -2, "mean": [1e-6, 2e-6, 1e-5], "largest": [1e-5, 3e-5, 2e-4]},
        "axis": {"axis": 1, "step": 1, "values": [0.1, 0.2, 9.0, 0.1]},
        "heat": [[0.1, 0.2], [0.3, "NaN"]],
        "heat_axes": [1, 3],
        "values": {"low": -1.0, "high": 2.5, "left": [1, 5, 9, 2], "right": [0, 6, 8, 3]},
    }
    made["causes"]["run"] = {
        "date": "2026-11-23T10:00:00Z",
        "version": "0.2.0",
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "command": "pytest --msdump-left=target_bad <b>",
    }
    made["suspicious"] = _suspicious(results(20, failing=1.0, names=NAMES))
    made["replayed"] = _replayed(results(40, failing=0.4, roles=True))
    made["steps"] = results(60, failing=0.2, seed=3)
    for number, record in enumerate(made["steps"]["tensors"]):
        record["iteration"], place = divmod(number, 12)
        record["left"]["address"] = made["steps"]["tensors"][place]["left"]["address"]
    made["counted"] = results(12, failing=0.5, names=[f"node_linear_{n}" for n in range(12)], roles=True)
    made["counted"]["left"]["shown"] = {f"node_linear_{n}": f"blocks.{n // 4}.part{n % 4}" for n in range(11)}
    made["counted"]["left"]["shown"]["node_linear_11"] = "blocks.2 (Gelu)"
    growth = {"start": 0.1, "end": 10.0, "operators": 1, "step": 100.0, "at": "node_linear_1"}
    for record in made["counted"]["tensors"]:
        if record["verdict"] == "fail":
            region = {"module": "", "after": ["node_linear_0"], "end": "node_linear_1", "io": "output"}
            why = {"why": "grew", "suspects": [], "given": [], "growth": growth, "region": region}
            record.update(
                role_why=why, amplification=100.0, metrics={**record["metrics"], "cosine_similarity": 0.99995}
            )
    ranks = {f"rank{rank}": results(40, failing=0.2 if rank else 0, names=NAMES, seed=rank) for rank in range(3)}
    (folder / "ranks.html").write_bytes(page(*map(_report, ranks.values()), names=tuple(ranks)))
    for name, values in made.items():
        (folder / f"{name}.html").write_bytes(page(_report(values)))
    return folder


def _report(values):
    """The report of a results.json that may say less than a real one."""
    return Report(
        left=SideInfo(**values["left"]),
        right=SideInfo(**values["right"]),
        profile=values["profile"],
        limits=values["limits"],
        records=tuple(map(from_json, values["tensors"])),
        unmatched=tuple(values["unmatched"]),
        coverage=Coverage(**values["coverage"]),
        run=values.get("run", {}),
        localised_by=values.get("localised_by", ""),
        edges=tuple(map(tuple, values.get("edges", ()))),
    )


def _suspicious(values):
    """Two pairs that look wrong, roles by execution order alone, and suggestions."""
    tensors = values["tensors"]
    for record, other in ((tensors[0], tensors[4]), (tensors[4], tensors[0])):
        left, right = record["left"]["address"], other["right"]["address"]
        told = {"side": "right", "address": right, "why": "WHY", "apart": 2e-8, "shape": "same"}
        record["suspicious"] = [{**told, "confidence": "clear", "map": {"left": left, "right": right}}]
    told = {"side": "left", "address": f"{NAMES[0]}:output:0", "why": "WHY", "apart": 0, "shape": "reshaped"}
    tensors[5]["suspicious"] = [{**told, "confidence": "ambiguous", "doubt": "several"}]
    for number, record in enumerate(tensors):
        why = {"why": "order", "suspects": [], "given": []} if number else {"why": "first", **_GIVEN}
        record.update(role="unknown" if number else "cause", causes=[], suspects=[], role_reason="REASON", role_why=why)
    suggestion = SuggestedPartner(NAMES[1], "ambiguous", "WHY", 0.01, "transposed")
    alone = ReportedTensor("x:output:0", "")
    values["unmatched"] = [UnmatchedTensor("right", alone, _REASON, suggestions=(suggestion,))]
    values["counts"]["unmatched_right"] = 1
    told = {**tensors[4]["findings"][0], "metric": None, "value": None, "sentence": say(_FINDING)}
    tensors[4]["findings"] = [told | _FINDING.entry]
    told = {"id": "one_slice", "confidence": "high", "evidence": say(_EVIDENCE)}
    tensors[4]["diagnosis"] = [told | _EVIDENCE.entry]
    values["localised_by"] = "execution order"
    return values


def _replayed(values):
    """What a replay says: one in five is wrong by itself, thrice its limit and more; the first is not replayable."""
    for number, record in enumerate(values["tensors"]):
        wrong = number % 5 == 4
        score, limit = (200.0 + number, 64.0) if wrong else (1.0 + number / 100, 16.0)
        record["local"] = LOCAL.write(Local("fail" if wrong else "pass", "score", score, limit))
    values["tensors"][0]["local"] = LOCAL.write(Local("not_replayable", why=RANDOM))
    return values


RANDOM = Message("local_random", {"operation": "bernoulli_"})
_REASON = Message(
    "kept_for_entry", {"name": "left", "side": "left", "why": Message("side_is_empty", {"side": "right"})}
)
_EVIDENCE = Message(
    "only_slice_differs",
    {"share": 0.99, "parts": (Message("index_of_axis", {"index": 3, "axis": 1}),), "n": 2, "m": 4, "rest": 8},
)
_FINDING = Message("dtypes_must_be_equal", {"left": "float32", "right": "float16", "rule": "profile bitwise"})
_GIVEN = {"suspects": [{"operator": "conv1", "state": "not dumped", "before": 2}], "given": ["conv1.weight"]}


class Watched:
    """A tab, and everything that happened in it which should not."""

    def __init__(self, tab):
        self.tab = tab
        self.said = []
        self.asked = []
        tab.on("console", lambda message: self.said.append(message.text))
        tab.on("pageerror", lambda error: self.said.append(str(error)))
        tab.on("dialog", lambda dialog: (self.said.append("a dialog"), dialog.dismiss()))
        tab.on("request", lambda request: self.asked.append(request.url))


@pytest.fixture
def open_page(browser, pages):
    """Open one of the pages; when the test ends, nothing was fetched but the file and the console is empty."""
    opened = []

    def _open(name, *, width=1440, height=900, scheme="light", locale="en-US"):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, locale=locale, offline=True
        )
        watched = Watched(context.new_page())
        opened.append((context, watched))
        watched.tab.goto((pages / f"{name}.html").as_uri())
        return watched.tab

    yield _open
    for context, watched in opened:
        said, asked = watched.said, watched.asked
        context.close()
        assert said == []
        assert [url for url in asked if not url.startswith(("data:", "file:"))] == []
        assert len({url.partition("#")[0] for url in asked if url.startswith("file:")}) == 1
