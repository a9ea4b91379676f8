"""Sentences of the engine in Chinese: every form is known again, and none of the engine's is forgotten."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from string import Formatter

import pytest
from localising.test_diagnosis import SPECIFIC, X, told
from reporting import samples

import pytest_msdump
from pytest_msdump.facts.operators import REASONS
from pytest_msdump.localising.diagnosis_nonfinite import nonfinite_origin
from pytest_msdump.memory_formats.axes import explain_shapes
from pytest_msdump.metrics import definitions
from pytest_msdump.model.comparison import Nonfinite
from pytest_msdump.model.pairing import Unmatched
from pytest_msdump.model.record import Diagnosis
from pytest_msdump.reporting.assemble import assemble
from pytest_msdump.reporting.coverage import coverage_text
from pytest_msdump.reporting.diagnosis import diagnosis_lines
from pytest_msdump.reporting.failure import failure_text
from pytest_msdump.reporting.phrases import Phrases
from pytest_msdump.reporting.retold import retold
from pytest_msdump.reporting.sentence_forms import KINDS, SENTENCES, WORDS
from pytest_msdump.reporting.summary import summary_lines

PACKAGE = Path(pytest_msdump.__file__).parent
ENGLISH, CHINESE = Phrases("en"), Phrases("zh")

# Field → what may stand there, and what is said of it; other fields are kept.
SAMPLES = {
    **dict.fromkeys("nmk", ("7", "7")),
    **dict.fromkeys(("side", "other"), ("left", "左侧")),
    **dict.fromkeys(("n_elements", "m_elements"), ("6 elements", "6")),
    "io": ("outputs", "输出"),
    "why": ("older run", "较早的一次运行"),
    "whys": ("index 3 of axis 1, index 2 of axis 0", "轴 1 的下标 3、轴 0 的下标 2"),
}
# What is part of our sentences in any language.
KEPT = {
    *("NaN", "Inf", "L1", "L2", "AIPP", "AI", "Core", "CPU", "Cast", "TransData", "Data", "MindSpore", "align"),
    *("kernels", "iteration", "set_dump", "op_debug_mode", "input_output", "max_absolute_error", "float64", "reshape"),
    *("true", "strided", "slice", "nonfinite_mismatch", "saturated_count", "allclose", "rank", "transpose"),
}


def fields(template):
    return [name for _, name, _, _ in Formatter().parse(template) if name is not None]


def english_in(text, *kept):
    words = set(re.findall(r"[A-Za-z][A-Za-z_0-9]*", text))
    return words - KEPT - set(re.findall(r"[A-Za-z][A-Za-z_0-9]*", " ".join(kept)))


@pytest.mark.parametrize(("english", "chinese"), SENTENCES, ids=range(len(SENTENCES)))
def test_a_form_is_known_again_and_said_from_its_parts(english, chinese):
    assert sorted(set(fields(chinese))) == sorted(set(fields(english)))
    given = {name: SAMPLES.get(name, (f"<{name}>",) * 2) for name in fields(english)}
    sentence = english.format(**{name: text for name, (text, _) in given.items()})
    assert retold(sentence, CHINESE) == chinese.format(**{name: said for name, (_, said) in given.items()})
    assert retold(sentence, ENGLISH) == sentence
    assert english_in(chinese.format(**dict.fromkeys(given, ""))) == set()


def test_every_reason_of_the_table_is_said_in_chinese():
    assert set(REASONS.values()) <= {english for english, _ in SENTENCES}


def test_what_is_not_of_ours_stays_as_it_is():
    for text in ("somebody's own sentence", "", "no operator of that name on the top side", "older run; and more"):
        assert retold(text, CHINESE) == text
    long = "out.txt pairs it with x: " + "y" * 3000
    assert retold(long, CHINESE) == long


def test_names_are_never_translated_and_never_templates():
    told_again = retold("left on the right side is paired with right (name)", CHINESE)
    assert told_again == "右侧的 left 已与 right (name) 配对"
    assert retold("no operator {side} on the left side", CHINESE) == "左侧没有算子 {side}"
    nested = "a: b pairs it with c: d pairs it with e: f pairs it with g: h pairs it with i: older run"
    assert retold(nested, CHINESE).startswith("a: b 将其与 c 配对")


def test_words_and_kinds_belong_together():
    for kind in ("left|right", "inputs?|outputs?"):
        assert all(re.fullmatch(kind, word) is None or word in WORDS for word in WORDS)
    assert {"left", "right", "input", "inputs", "output", "outputs"} == set(WORDS)
    assert set(KINDS) == set(SAMPLES) - {"why", "whys"}


# -- the engine's own -------------------------------------------------------------------------------------------------

MODULES = [
    *(f"judging/{name}.py" for name in ("judge", "judgement")),
    *(f"localising/diagnosis_{name}.py" for name in ("moved", "nonfinite", "pointwise", "rounding", "shift")),
    *(f"localising/diagnosis_{name}.py" for name in ("slices", "values")),
    *(f"matching/{name}.py" for name in ("explain", "fused", "names", "not_dumped", "remains")),
]
# Parts of sentences that only lead to a part of another: places, lists, and what a person asks for by name.
PARTS = {
    *("1 element where the", "s only on the", "bfloat16, towards zero"),
    *('[[msdump.rule]] with complex = "allow', "dtype_hint = true"),
}


def literals(path):
    """The words of a module's sentences: of texts that are put together, and constants that are returned or kept."""
    tree = ast.parse((PACKAGE / path).read_text("utf-8"))
    documented = (ast.Module, ast.FunctionDef, ast.ClassDef)
    out = {
        id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, documented) and ast.get_docstring(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            out |= {id(child) for child in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in out:
            yield node.value


@pytest.mark.parametrize("path", MODULES)
def test_no_words_of_the_engine_are_missing(path):
    """A sentence that is worded anew has to be worded anew here as well."""
    known = "\0".join(re.sub(r"\{\w+\}", "\1", english) for english, _ in SENTENCES)
    for text in literals(path):
        for part in re.split(r"\{\w+\}|\b(?:left|right|inputs?|outputs?|iteration)\b", text):
            words = part.strip(" .,;:()\"'")
            if len(words.split()) >= 3 and words not in PARTS:
                assert words in _plain(known), (path, words)


def _plain(known):
    return re.sub(r"\b(?:left|right|inputs?|outputs?|iteration)\b", "\1", known) + known


@pytest.mark.parametrize("done", SPECIFIC)
def test_evidence_is_told_in_chinese(done):
    left, _ = SPECIFIC[done]
    for one in told(left, X):
        said = retold(one.evidence, CHINESE)
        assert re.search(r"[\u4e00-\u9fff]", said), one.evidence
        assert (
            english_in(
                said,
                "towards zero even NCHW NHWC NC1HWC0 FRACTAL_NZ FRACTAL_Z float16 bfloat16 float32 e4m3 e5m2 int8",
            )
            == set()
        )


def test_nan_and_inf_are_told_in_chinese():
    counts = Nonfinite(nan_left=2, inf_right=1, mismatch=3, first_mismatch=(0, 1))
    said = retold(nonfinite_origin(counts, elements=9).evidence, CHINESE)
    assert said == "9 个元素中有左侧 2 个 NaN、右侧 1 个 Inf，而另一侧为其他值，首个位于 [0, 1]"


@pytest.mark.parametrize(
    "shapes", [((2, 3), (2, 4)), ((1,), (2,)), ((2, 3, 8, 5), (2, 8, 5, 3)), ((2, 1), (2,)), ((4, 6), (8, 3))]
)
def test_shapes_that_do_not_meet_are_told_in_chinese(shapes):
    said = retold(explain_shapes(*shapes), CHINESE)
    assert said.startswith("左侧 ")
    assert english_in(said) == set()


def test_why_a_metric_has_no_number_is_told_in_chinese():
    reasons = [value for name, value in vars(definitions).items() if name.startswith("_") and isinstance(value, str)]
    reasons = [text for text in reasons if " " in text.strip() and "_" not in text and "." not in text]
    reasons.remove(definitions._ONE_ELEMENT)
    assert len(reasons) > 8
    for text in reasons:
        assert re.search(r"[\u4e00-\u9fff]", retold(text, CHINESE)), text


def test_the_terminal_tells_it_where_it_tells_sentences():
    drifted = samples.drifted()
    left, right = samples.dumps()
    reason = "no operator of that name on the right side"
    alone = [Unmatched("left", ref, reason) for ref in left.refs]
    pairing = replace(samples.pairing([samples.pair()]), unmatched_left=tuple(alone))
    report = assemble(left, right, pairing, [drifted], profile="default")
    assert "右侧没有此名称的算子" in coverage_text(report, say=CHINESE)
    assert "右侧没有此名称的算子" in "\n".join(summary_lines(report, say=CHINESE))
    record = replace(drifted, by="same name as conv2", how="mangled")
    assert "配对依据：与 conv2 同名" in failure_text([record], operators=3, say=CHINESE)
    flipped = replace(drifted, diagnosis=(Diagnosis("sign_flipped", "high", "left = -right"),))
    assert "左 = −右" in "\n".join(diagnosis_lines(flipped, 80, CHINESE))


def test_it_takes_no_long_whatever_a_name_holds():
    name = ("left " * 40 + " pairs it with " * 20 + " of the squared difference is at " * 10)[:1500]
    for sentence in (f"{name} is below", f"{name} pairs it with {name[:300]}", f"the left side has it in {name}"):
        assert isinstance(retold(sentence, CHINESE), str)
