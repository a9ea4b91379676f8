"""The changelog of a history, and its exit code."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from pytest_msdump.capabilities.upgrade.court import VERDICTS, Change, Judgement
from pytest_msdump.capabilities.upgrade.releases import History
from pytest_msdump.capabilities.upgrade.report import document, lines_of, markdown, write
from pytest_msdump.core.text import Message, Phrases

ENGLISH, CHINESE = Phrases("en"), Phrases("zh")
WHY = Message("upgrade_kernel")
# Whatever a dump calls its operators.
HOSTILE = "a|b<script>\x1b[31m"


def history(*verdicts: str, operator: str = "norm", **about: tuple[str, ...]) -> History:
    changes = tuple(Change(operator, "LayerNorm", verdict, WHY, 1e-7) for verdict in verdicts)
    steps = (
        Judgement("a==1.0", "a==1.1", 9, 0),
        Judgement("a==1.1", "a==1.3", 9, 4, changes, is_forced=True, **about),
    )
    names = ("a==1.0", "a==1.1", "a==1.2", "a==1.3")
    return History(names, names, {"a==1.2": "it failed"}, steps)


@pytest.mark.parametrize("verdict", VERDICTS)
def test_only_what_is_harmless_exits_with_0(verdict: str) -> None:
    codes = {"wrong": 1, "code": 1, "not judged": 125}
    assert history(verdict).code(frozenset()) == codes.get(verdict, 0)


@pytest.mark.parametrize("verdicts", list(product(VERDICTS, VERDICTS)))
def test_a_harmless_verdict_never_hides_another(verdicts: tuple[str, str]) -> None:
    codes = {history(one).code(frozenset()) for one in verdicts}
    assert history(*verdicts).code(frozenset()) == (1 if 1 in codes else max(codes))


def test_what_is_allowed_is_what_was_named() -> None:
    assert history("code").code(frozenset({"code"})) == 0
    assert history("code").code(frozenset({"not judged"})) == 1
    assert history("wrong", "code").code(frozenset({"code", "not judged"})) == 1
    # Limits, and inputs that were not the same, are nobody's to allow.
    assert history("kernel", beyond=("norm",)).code(frozenset({"code"})) == 1
    assert history("kernel", given=("inputs x",)).code(frozenset({"code"})) == 125


def test_nothing_that_was_compared_is_no_pass() -> None:
    assert Judgement("old", "new", 0, 0).code() == 125


def test_releases_are_columns_and_operators_are_rows() -> None:
    lines = markdown(history("kernel"), ENGLISH).splitlines()
    assert "| operator | 1.3 |" in lines
    assert "| `norm (LayerNorm)` | kernel |" in lines
    assert "* skipped a==1.2: it failed" in lines


def test_names_of_a_dump_do_nothing_in_a_page_or_a_table(tmp_path: Path) -> None:
    found = history("wrong", operator=HOSTILE)
    lines = [line for step in found.steps for line in lines_of(step, "default", ENGLISH)]
    written = [path.read_text("utf-8") for path in write(found, lines, tmp_path, ENGLISH)]
    assert not any("<script>" in text or "\x1b" in text for text in written[1:])
    assert "\x1b" not in written[0]
    assert written[0].splitlines()[-1].replace("\\|", "").count("|") == 3


def test_every_sentence_is_there_in_both_languages() -> None:
    (_, step) = history("kernel", "inherited", beyond=("norm",), given=("seeds torch",)).steps
    english, chinese = (list(lines_of(step, "default", say)) for say in (ENGLISH, CHINESE))
    assert len(english) == len(chinese) == 5
    assert "same inputs, other bits" in english[1]
    assert "输入相同而比特不同" in chinese[1]


def test_the_document_has_code_and_parameters_of_each_reason() -> None:
    found = document(history("kernel"))
    assert json.loads(json.dumps(found)) == found
    (change,) = found["steps"][1]["changes"]
    assert (change["code"], change["verdict"]) == ("upgrade_kernel", "kernel")
