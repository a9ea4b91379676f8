"""Chinese in the terminal: one table, the same fields in both languages, nothing that goes around it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from report import samples
from report.test_reporting_failure import a_report, overflowed

from pytest_msdump.capabilities.causes.roles import reason_text
from pytest_msdump.capabilities.causes.summarised import role_line, role_lines
from pytest_msdump.core.model.record import RoleReason, Suspect
from pytest_msdump.core.report.failure import failure_text, one_line
from pytest_msdump.core.report.record_json import from_json
from pytest_msdump.core.text import Phrases

CHINESE = Phrases("zh")
# Latin words that Chinese text has, too: names that are typed, and what numpy and MindSpore call things.
KEPT = {
    "max",
    *("NaN", "Inf", "msdump", "toml", "results", "json", "profile", "default", "JSON", "npy", "op", "index"),
    *("timestamp", "min_coverage", "max_abs", "select", "deselect", "io", "iteration", "rank", "graph", "map", "left"),
    *("right", "net", "occurrence", "all", "threshold", "match", "suggest"),
}


# -- nothing goes around the table ------------------------------------------------------------------------------------


def _strings(value):
    """Every text of a record but the sentences."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from (key,) if not isinstance(key, str) or key != "sentence" else ()
            yield from () if key == "sentence" else _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, str):
        yield value


def _english_in(text, *sources):
    known = {word for source in _strings(list(sources)) for word in re.findall(r"[A-Za-z_]+", source)}
    shorts = {"cosine", "rel_euclid", "norm_max", "acc_rel", "kld", "mean_abs", "rmse", "max_rel", "mean_rel"}
    return sorted({word for word in re.findall(r"[A-Za-z_]{2,}", text) if word not in known | KEPT | shorts})


def _told(record, width=80):
    return failure_text(
        [record],
        operators=14,
        width=width,
        rerun="pytest -q",
        say=CHINESE,
    )


# What the English of judging and of the errors says, that the numbers of a record do not tell.
UNTOLD = ("undefined", "note", "error")


def _record(name):
    made = {"drift": samples.drifted, "pass": samples.passed, "overflow": overflowed, "error": samples.unreadable}
    record = made[name]()
    findings = [one for one in record.verdict.findings if one.outcome not in UNTOLD]
    findings = tuple(replace(one, rule=one.rule or "profile default") for one in findings)
    return replace(record, verdict=replace(record.verdict, findings=findings), notes=())


def _rare(**changes):
    """A record with what few records have."""
    record = samples.entry(_record("drift"))
    statistics = {"unseen": ["left"], "compared": ["maximum", "md5"], "digits": {"left": 6, "right": 6}}
    statistics |= {"elements": 4}
    statistics |= {side: {"maximum": 1.0 + (side == "left"), "md5": side[0] * 32} for side in ("left", "right")}
    same = {"file": "Conv2D.json", "values": {"pad": "1"}}
    return record | {
        "right_zero_mismatch": 3,
        "near_zero": 2,
        "findings": record["findings"][:1],
        "metrics": record["metrics"] | {"saturated_count": 1},
        "differing_arguments": [{"kind": "attribute", "name": "pad_mode", "left": "same", "right": None}] * 14,
        "kernel_args": {"left": same, "right": same},
        "source": {"file": "net.py", "line": 3, "text": "x = f(x)"},
        "right": record["right"] | {"source": {"file": "other.py", "line": 4, "text": ""}, "row": 7, "shape": None},
        "transform": {"left_format": "NHWC", "right_format": "NCHW", "transpose": [0, 1], "reshape": True},
        "statistics": statistics,
        "graph": 3,
        **changes,
    }


@pytest.mark.parametrize("how", ["name", "mangled", "scope", "mapped", "fused"])
def test_what_few_tensors_have_is_told_in_chinese(how):
    entry = _rare(how=how, by="")
    record = from_json(entry)
    text = _told(record)
    for told in (
        "net.py:3",
        "右侧产生于 other.py:4",
        "第 7 行",
        "参数不同",
        "另有 2 个",
        "2 个元素一侧为 0，另一侧不超过最小正数的 2 倍",
        "（两侧相同）",
        "统计量",
        "右侧已变形",
        "溢出",
    ):
        # Lines are broken between any two characters.
        assert "".join(told.split()) in "".join(text.split())
    assert "相对误差未计入" in text
    assert (
        _english_in(text + one_line(record, CHINESE), entry, "target_bad reference pytest llllllllllll rrrrrrrrrrrr")
        == []
    )


ROLES = [
    {"role": "cause", "causes": [], "suspects": [], "role_reason": "WHY"},
    {"role": "inherited", "causes": ["Default/conv2:output:0"], "suspects": [], "role_reason": ""},
    {"role": "inherited", "causes": [], "suspects": [], "role_reason": ""},
    {"role": "unknown", "causes": [], "suspects": [], "role_reason": "WHY"},
]


def _with_roles():
    drifted = samples.drifted()
    told = [samples.edited(drifted, **role, order=number, amplification=20.0) for number, role in enumerate(ROLES)]
    return a_report(*told)


def test_roles_are_told_in_chinese():
    report = _with_roles()
    lines = [*role_lines(report, width=80, say=CHINESE), *(role_line(record, CHINESE) for record in report.records)]
    assert _english_in("\n".join(lines), *map(samples.entry, report.records), "WHY Default conv") == []
    assert lines[0] == "1 个起因，2 个继承，1 个来源不明"


# -- sentences ---------------------------------------------------------------------------------------------------------


def test_what_an_earlier_or_later_release_wrote_is_shown_as_its_english_sentence():
    entry = samples.entry(samples.drifted())
    plain = {key: one for key, one in entry["findings"][0].items() if key not in ("code", "parameters")}
    for unknown in ({}, {"code": "of_a_later_release", "parameters": {}}, {"code": "below_limit", "parameters": {}}):
        told = samples.edited(samples.drifted(), findings=[{**plain, **unknown, "sentence": "as it stands"}])
        assert "as it stands" in one_line(told, CHINESE)
        assert "as it stands" in one_line(told)


# -- widths -----------------------------------------------------------------------------------------------------------


# -- why an operator has its role -------------------------------------------------------------------------------------

SUSPECTS = (Suspect("conv3", "not dumped"), Suspect("conv4", "no partner", 3))


def test_the_english_of_a_reason_is_the_one_that_results_hold():
    told = reason_text(RoleReason("first", SUSPECTS, ("a", "b", "c", "d", "e")), "conv5")
    assert told == (
        "the first to fail; the mistake is in conv5, or in conv3 or 3 operators before conv4 before it (not compared); "
        "not compared: a, b, c, d and 1 more"
    )
