"""One catalogue for each language: the same codes, the same fields, none left over, and none that is missing."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pytest_msdump
from pytest_msdump.capabilities.html.words import PAGE
from pytest_msdump.core import ports
from pytest_msdump.core.facts.metrics import METRICS, title_of
from pytest_msdump.core.text import Message, Phrases, in_clauses, message_of, plain_text, say
from pytest_msdump.core.text.phrases import CATALOGUES, catalogue

EN, ZH = catalogue("en"), catalogue("zh")
PACKAGE = Path(pytest_msdump.__file__).parent
TEXT = PACKAGE / "core" / "text"
CHINESE = Phrases("zh")
# Said by a page or by codes that are put together of parts from elsewhere.
VERDICTS = {"PASS", "WARN", "FAIL", "UNDEFINED", "ERROR", "NOT_RUN"}


def fields(template: str | tuple[str, str]) -> set[str]:
    one = template if isinstance(template, str) else template[1]
    return {name for _, name, _, _ in Formatter().parse(one) if name is not None}


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for file in sorted(PACKAGE.rglob("*.py")):
        if file.parent.name != "text" or file.name == "phrases.py":
            yield file, ast.parse(file.read_text("utf-8"))


def test_both_languages_have_the_same_codes() -> None:
    assert list(EN) == list(ZH)


def test_no_code_has_one_sentence_here_and_another_there() -> None:
    tables = [CATALOGUES["en"], *(ports.load(row)[0] for row in ports.values("SENTENCES").values())]
    assert sum(map(len, tables)) == len(EN)
    core = re.findall(
        r"^([a-zA-Z]\w*) \| ", "".join(file.read_text("utf-8") for file in TEXT.glob("*.py")), re.MULTILINE
    )
    assert sorted(core) == sorted(CATALOGUES["en"])
    # What the page calls as the terminal does is the same sentence: it takes the first of that name.
    assert len(PAGE.keys() & EN.keys()) > 50
    for code in PAGE.keys() & EN.keys():
        english = EN[code]
        assert PAGE[code] == (english if isinstance(english, str) else english[1], ZH[code]), code


def test_a_metric_has_a_title_in_both_languages_and_one_of_a_user_its_id() -> None:
    own = {name: fact for name, fact in METRICS.items() if fact.define is None}
    assert [name for name, fact in own.items() if not (fact.title.isascii() and re.search("[一-鿿]", fact.zh))] == []
    assert len({fact.zh for fact in own.values()}) == len(own)
    assert title_of("one_of_a_user", "zh") == title_of("one_of_a_user", "en") == "one_of_a_user"
    said = Message("above_limit", {"metric": "rmse_of_mine", "value": 2.0, "limit": 1.0, "rule": "r", "detail": None})
    assert say(said, "zh") == "rmse_of_mine 为 2，高于阈值 1（r）"


@pytest.mark.parametrize("code", [code for code in EN if "{metric" in str(ZH[code])])
def test_a_chinese_sentence_names_a_metric_by_its_title(code: str) -> None:
    assert "{metric}" not in str(ZH[code])


@pytest.mark.parametrize("code", [code for code in EN if code != "in_two_languages"])
def test_both_languages_have_the_same_fields(code: str) -> None:
    template = EN[code]
    assert fields(template) == fields(ZH[code])
    if isinstance(template, tuple):
        assert "n" in fields(template)
        assert fields(template[0]) == fields(template[1])


def test_what_has_words_in_english_has_chinese_ones() -> None:
    for code, template in EN.items():
        words = re.sub(r"\{[^}]*\}|`[^`]*`", "", template if isinstance(template, str) else template[1])
        if re.search(r"[a-z]", words) and code not in ("at_place", "transpose_once"):
            assert re.search(r"[\u4e00-\u9fff]", ZH[code]), code


def test_every_code_is_used() -> None:
    whole: set[str] = set()
    built: set[str] = set()
    for _, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                whole.add(node.value)
            if isinstance(node, ast.JoinedStr):
                texts = [str(part.value) if isinstance(part, ast.Constant) else None for part in node.values]
                # A field may stand for a word of a code; a code is never all fields.
                if re.search(r"[a-z]{2,}_|_[a-z]{2,}", "".join(text or "" for text in texts)):
                    built.add("".join("[a-z_]+" if text is None else re.escape(text) for text in texts))
    for code in set(EN) - VERDICTS - {"in_two_languages"}:
        assert code in whole or any(re.fullmatch(pattern, code) for pattern in built), code


@pytest.mark.full
def test_every_message_that_is_made_is_in_the_catalogue_with_all_its_fields() -> None:
    made = 0
    for file, tree in modules():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
                continue
            code = node.args[0]
            if node.func.id not in ("Message", "say") or not (isinstance(code, ast.Constant) and code.value):
                continue
            where = (file.name, node.lineno)
            assert code.value in EN, where
            if node.func.id == "say":
                given = {keyword.arg for keyword in node.keywords}
                assert None in given or fields(EN[code.value]) <= given, where
            elif len(node.args) == 1:
                assert not fields(EN[code.value]), where
            elif isinstance(node.args[1], ast.Dict):
                keys = {key.value if isinstance(key, ast.Constant) else None for key in node.args[1].keys}
                assert None in keys or fields(EN[code.value]) <= keys, where
            made += 1
    assert made > 150


# -- saying -----------------------------------------------------------------------------------------------------------


def test_a_parameter_is_never_a_template() -> None:
    assert CHINESE("after_label", label="{text}", text="{0} %s {label}") == "{text}：{0} %s {label}"


def test_messages_within_messages_are_said_in_the_same_language() -> None:
    inner = Message("older_run")
    why = in_clauses(Message("rule_pairs_but", {"rule": "f.json", "name": "a", "why": inner}), None, inner)
    assert say(why) == "f.json pairs it with a: older run; older run"
    assert say(why, "zh") == "f.json 将其与 a 配对：较早的一次运行；较早的一次运行"
    assert in_clauses(inner) == inner


PARAMETERS = st.recursive(
    st.none() | st.text() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.builds(Message, st.sampled_from(sorted(EN)), st.dictionaries(st.text(max_size=3), inner, max_size=2))
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=200)
@given(code=st.sampled_from(sorted(EN)), value=PARAMETERS, limit=st.floats() | st.integers())
def test_a_message_survives_json_and_is_said_whatever_its_parameters_are(
    code: str, value: object, limit: float
) -> None:
    parameters = dict.fromkeys(fields(EN[code]) | fields(ZH[code]), value) | {"limit": limit}
    message = Message(code, parameters)  # type: ignore[arg-type]
    entry = json.loads(json.dumps(message.entry, allow_nan=False))
    again = message_of(entry, "the sentence")
    try:
        sentences = [say(message, language) for language in ("en", "zh")]
    except KeyError:
        assert again == plain_text("the sentence")
        return
    assert [say(again, language) for language in ("en", "zh")] == sentences
    assert json.dumps(again.entry) == json.dumps(message.entry)


@pytest.mark.parametrize("entry", [{}, {"code": "older_run"}, {"code": "?", "parameters": {}}, {"code": "inner_no"}])
def test_an_entry_without_a_known_code_is_its_sentence(entry: dict[str, object]) -> None:
    assert say(message_of(entry, "as it stands"), "zh") == "as it stands"
