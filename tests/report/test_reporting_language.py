"""Chinese in the terminal: one table, the same fields in both languages, nothing that goes around it."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from report import samples
from report.test_reporting_failure import RERUN, a_report, nothing_met, overflowed

import pytest_msdump
from pytest_msdump.capabilities.diagnosis.kinds import DIAGNOSES
from pytest_msdump.causes.reasons import reason_of, reason_text
from pytest_msdump.core.compare.assemble import assemble
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.comparison import Finding, Verdict
from pytest_msdump.core.model.pairing import Missing, Unmatched
from pytest_msdump.core.model.record import Diagnosis, RoleReason, Suspect
from pytest_msdump.core.report.coverage import coverage_text
from pytest_msdump.core.report.failure import diagnosis_lines, failure_text, one_line
from pytest_msdump.core.report.json_report import MISSING, UNMATCHED, document, report_from
from pytest_msdump.core.report.record_json import from_json
from pytest_msdump.core.report.summary import header_lines, summary_lines
from pytest_msdump.core.report.tables import columns
from pytest_msdump.core.text import ENGLISH, Message, Phrases, plain_text
from pytest_msdump.core.text.en import EN
from pytest_msdump.core.text.message import LANGUAGES
from pytest_msdump.core.text.page import PAGE
from pytest_msdump.core.text.zh import ZH
from pytest_msdump.report.causes import role_line, role_lines

CHINESE = Phrases("zh")
PACKAGE = Path(pytest_msdump.__file__).parent
# Latin words that Chinese text has, too: names that are typed, and what numpy and MindSpore call things.
KEPT = {
    "max",
    *("NaN", "Inf", "msdump", "toml", "results", "json", "profile", "default", "JSON", "npy", "op", "index"),
    *("timestamp", "min_coverage", "max_abs", "select", "deselect", "io", "iteration", "rank", "graph", "map", "left"),
    *("right", "net", "occurrence", "all", "threshold", "match", "suggest"),
}


def test_one_is_singular_in_english_and_the_same_in_chinese():
    assert ENGLISH("outcomes", n=1, counts="x") == "1 tensor: x"
    assert ENGLISH("outcomes", n=2, counts="x") == "2 tensors: x"
    assert CHINESE("outcomes", n=1, counts="x") == "1 个张量：x"


def test_a_value_is_never_taken_for_a_template():
    assert CHINESE("after_label", label="{text}", text="{0} %s {label}") == "{text}：{0} %s {label}"


@pytest.mark.parametrize("name", DIAGNOSES)
def test_a_drift_is_called_what_the_page_calls_it(name):
    assert PAGE[f"looks_{name}"][1].startswith(ZH[f"looks_{name}"])


def test_a_word_that_the_page_has_too_is_the_same_one():
    same = {name for name in EN if name in PAGE and EN[name] == PAGE[name][0]}
    assert len(same) > 20
    for name in same - {"left", "right", "tensors", "differs"}:
        assert ZH[name] == PAGE[name][1], name
    for verdict in ("fail", "warn", "undefined", "error", "ok", "skipped"):
        assert ZH.get(f"is_{verdict}", PAGE[verdict][1]) == PAGE[verdict][1]


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
        left_root="target_bad",
        right_root="reference",
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


@pytest.mark.parametrize("name", ["drift", "pass", "overflow", "error"])
@pytest.mark.parametrize("width", [80, 120])
def test_a_tensor_is_told_in_chinese(name, width):
    record = _record(name)
    for text in (
        _told(record, width),
        one_line(record, CHINESE),
        failure_text([record], operators=3, in_full=True, say=CHINESE),
    ):
        assert _english_in(text, samples.entry(record), "target_bad reference pytest") == []
        assert re.search(r"[\u4e00-\u9fff]", text)


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
        assert told in text
    assert "相对误差未计入" in text
    assert (
        _english_in(text + one_line(record, CHINESE), entry, "target_bad reference pytest llllllllllll rrrrrrrrrrrr")
        == []
    )


def test_no_line_of_code_has_words_of_its_own():
    """Whatever is said stands in the table: these modules hold no two words in a row, and no label."""
    said_by = ("core/report/failure", "core/report/summary", "core/report/coverage", "report/causes", "causes/reasons")
    known = {"execution order", "graph of the right side", " and ", "[[msdump.map]]", "names alone"}
    for name in said_by:
        tree = ast.parse((PACKAGE / f"{name}.py").read_text("utf-8"))
        documented = (ast.Module, ast.FunctionDef, ast.ClassDef)
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, documented) and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                assert node.value in known or not re.search(r"[a-z]+:?;? [a-z]+|[a-z]+:$", node.value), (
                    name,
                    node.lineno,
                )
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("labelled", "_hanging")
            ):
                label = node.args[0]
                assert not isinstance(label, ast.Constant) or label.value == "", (name, node.lineno)


def test_the_summary_and_the_match_report_are_told_in_chinese():
    drifted = samples.drifted()
    left, right = samples.dumps()
    alone = [Unmatched("left", ref, plain_text("LEFT-OUT"), ("conv1:output:0",)) for ref in left.refs]
    gone = [Missing("a:output:0", "b:output:0", plain_text("GONE"))]
    reports = [
        a_report(samples.passed(), drifted, min_coverage=0.9),
        a_report(samples.passed(), samples.passed()),
        a_report(alone_left=alone, alone_right=[Unmatched("right", right.refs[0], plain_text("LEFT-OUT"))]),
        a_report(drifted, alone_left=alone * 5, missing=gone * 9),
        a_report(samples.not_run()),
        nothing_met(),
    ]
    for report in reports:
        lines = [
            *header_lines(report.left, report.right, pairs=3, profile="default", unseen=1, say=CHINESE),
            *summary_lines(report, files=["a.json"], say=CHINESE),
            *coverage_text(report, say=CHINESE).splitlines(),
        ]
        sources = [report.left.directory, report.left.reader, report.right.directory, report.right.reader]
        sources += [*report.left.labels.values(), *map(samples.entry, report.records)]
        sources += [*map(UNMATCHED.write, report.unmatched), *map(MISSING.write, report.missing), "MindSpore"]
        assert _english_in("\n".join(lines), *sources, "GONE LEFT OUT json") == []


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


@pytest.mark.parametrize("name", DIAGNOSES)
def test_a_drift_looks_like_something_in_chinese(name):
    record = samples.drifted(diagnosis=(Diagnosis(name, "high", plain_text("EVIDENCE")),))
    lines = diagnosis_lines(record, 120, CHINESE)
    assert _english_in("\n".join(lines), "EVIDENCE") == []


# -- sentences ---------------------------------------------------------------------------------------------------------


def test_a_finding_is_said_from_its_code_in_either_language():
    record = samples.drifted()
    assert one_line(record, CHINESE).partition("：")[2].startswith("cosine_similarity 为 0.390511，低于阈值 0.999（")
    assert "cosine_similarity 0.390511 is below 0.999 (profile default" in one_line(record)


def test_the_terminal_says_reasons_and_evidence_from_their_codes():
    drifted = samples.drifted()
    left, right = samples.dumps()
    why = Message("no_operator_of_that_name", {"side": "right"})
    pairing = replace(
        samples.pairing([samples.pair()]), unmatched_left=tuple(Unmatched("left", ref, why) for ref in left.refs)
    )
    report = assemble(left, right, pairing, [drifted], profile="default")
    assert "右侧没有此名称的算子" in coverage_text(report, say=CHINESE)
    assert "右侧没有此名称的算子" in "\n".join(summary_lines(report, say=CHINESE))
    record = samples.edited(drifted, by="same name as Default_conv2", how="mangled")
    assert "配对依据：与 Default_conv2" in failure_text([record], operators=3, say=CHINESE)
    record = samples.edited(drifted, by="block0.conv2", how="scope")
    assert "配对依据：同一模块 block0.conv2" in failure_text([record], operators=3, say=CHINESE)
    assert "paired: same module block0.conv2" in failure_text([record], operators=3)
    flipped = replace(drifted, diagnosis=(Diagnosis("sign_flipped", "high", Message("left_is_minus_right")),))
    assert "左 = −右" in "\n".join(diagnosis_lines(flipped, 80, CHINESE))


def test_what_an_earlier_or_later_release_wrote_is_shown_as_its_english_sentence():
    entry = samples.entry(samples.drifted())
    plain = {key: one for key, one in entry["findings"][0].items() if key not in ("code", "parameters")}
    for unknown in ({}, {"code": "of_a_later_release", "parameters": {}}, {"code": "below_limit", "parameters": {}}):
        told = samples.edited(samples.drifted(), findings=[{**plain, **unknown, "sentence": "as it stands"}])
        assert "as it stands" in one_line(told, CHINESE)
        assert "as it stands" in one_line(told)


def test_a_stranger_s_word_for_an_outcome_is_shown_as_it_is():
    odd = Verdict("fail", (Finding("odd", plain_text("something")),))
    assert "odd         something" in _told(samples.drifted(verdict=odd))


# -- widths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("name", ["drift", "overflow", "error"])
def test_no_line_takes_more_columns_than_there_are(name, width):
    record = _record(name)
    assert max(columns(line) for line in _told(record, width).splitlines()) <= width


@pytest.mark.parametrize("width", [60, 80])
def test_the_summary_fits(width):
    report = a_report(samples.passed(), samples.drifted(), samples.unreadable(), min_coverage=0.9)
    lines = [
        *summary_lines(report, width=width, say=CHINESE),
        *coverage_text(report, width=width, say=CHINESE).split("\n"),
    ]
    assert max(map(columns, lines)) <= width


def test_the_command_stays_what_it_is():
    text = failure_text([samples.drifted()], operators=3, rerun=RERUN, say=CHINESE)
    english = failure_text([samples.drifted()], operators=3, rerun=RERUN)
    assert text.split("\n")[-2:] == english.split("\n")[-2:]


def test_there_are_two_languages():
    assert LANGUAGES == ("en", "zh")


# -- why an operator has its role -------------------------------------------------------------------------------------

SUSPECTS = (Suspect("conv3", "not dumped"), Suspect("conv4", "no partner", 3))
_BY_REPLAY = ("local", "local_inherited", "local_accumulated")
WHYS = [name.removeprefix("why_") for name in EN if name.startswith("why_")]


@pytest.mark.parametrize("why", WHYS)
def test_a_reason_is_told_in_chinese(why):
    record = samples.drifted(role_reason="WHY", role_why=RoleReason(why, SUSPECTS, ("conv1",)))
    text = reason_of(record, CHINESE)
    assert _english_in(text, "conv") == []
    assert reason_of(record, ENGLISH) == "WHY"
    apart = {"order", "no_order", "order_jump", "feeds", "earlier", "ranks", "within", "accumulated", *_BY_REPLAY}
    if why not in apart:
        assert "conv3（未落盘）、conv4 之前的 3 个算子（未配对）" in text


def test_the_english_of_a_reason_is_the_one_that_results_hold():
    told = reason_text(RoleReason("first", SUSPECTS, ("a", "b", "c", "d", "e")))
    assert told == (
        "the first to fail; it, or an operator before it that was not compared: conv3 (not dumped), "
        "3 operators before conv4 (no partner); not compared: a, b, c, d and 1 more"
    )


@pytest.mark.parametrize("why", [None, RoleReason("another")])
def test_a_reason_of_another_version_stays_as_it_is(why):
    assert reason_of(samples.drifted(role_reason="WHY", role_why=why), CHINESE) == "WHY"


def test_every_state_that_an_operator_can_be_in_has_its_message():
    tree = ast.parse((PACKAGE / "causes" / "operator_status.py").read_text("utf-8"))
    (state,) = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "state"]
    constants = {
        node.value
        for statement in state.body[1:]
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant) and node.value not in ("output", None)
    }
    assert {"not dumped", "no partner"} < constants
    for word in (*constants, "fails", "passes"):
        assert EN[f"state_{word.replace(' ', '_')}"] == word


@pytest.mark.parametrize(
    "why",
    [
        "unseen",
        {"why": "unseen", "suspects": []},
        {"why": "unseen", "suspects": ["conv3"], "given": []},
        {"why": "unseen", "suspects": [], "given": [1]},
    ],
)
def test_a_damaged_reason_is_refused(why):
    record = samples.entry(samples.drifted()) | ROLES[0] | {"role_why": why}
    values = json.loads(json.dumps(document(a_report(samples.drifted()))))
    values["tensors"] = [record]
    with pytest.raises(ConfigError, match="role_why"):
        report_from(values, place="results.json")
