"""`--msdump-lang`: what a terminal is told in, and that nothing else changes with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from outcomes import without_run
from plugin.suites import write_suite

from pytest_msdump.core.settings.options import language_of

GRAPH = Path(__file__).parents[1] / "data" / "localising" / "target_bad" / "ms_output_trace_code_graph_0.ir"
CHINESE = ("1 个起因：Default/conv2", "起因，已限定范围：", "超限  ", "右侧 = 标杆", "余弦相似度")
ENGLISH = ("1 cause: Default/conv2", "cause, bounded: ", "DRIFT  ", "right = reference", "  cosine   ")


@pytest.fixture
def suite(pytester: pytest.Pytester, lenet: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    return write_suite(pytester.path / "msdump.toml", lenet, "target_bad", extra=f"graph_files = ['{GRAPH}']")


def _results(pytester: pytest.Pytester) -> bytes:
    return without_run((pytester.path / "msdump-report" / "results.json").read_bytes())


def test_a_run_speaks_chinese_and_its_results_do_not(pytester: pytest.Pytester, suite: Path) -> None:
    english = pytester.runpytest(suite)
    results = _results(pytester)
    chinese = pytester.runpytest(suite, "--msdump-lang=zh")
    chinese.assert_outcomes(failed=7, passed=4)
    for word, other in zip(CHINESE, ENGLISH, strict=True):
        assert word in chinese.stdout.str()
        assert other not in chinese.stdout.str()
        assert other in english.stdout.str()
    assert _results(pytester) == results


@pytest.mark.e2e
def test_the_locale_decides_unless_somebody_says_it(
    pytester: pytest.Pytester, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert CHINESE[2] in pytester.runpytest_subprocess(suite, "-k", "conv2").stdout.str()
    assert ENGLISH[2] in pytester.runpytest_subprocess(suite, "-k", "conv2", "--msdump-lang=en").stdout.str()


def test_an_unknown_language_is_a_usage_error(pytester: pytest.Pytester, suite: Path) -> None:
    pytester.makeini("[pytest]\nmsdump_lang = tlh\n")
    result = pytester.runpytest(suite)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*msdump_lang: there is no language 'tlh'; give en, zh or auto*"])


@pytest.mark.parametrize(
    ("wanted", "environ", "encoding", "language"),
    [
        ("zh", {}, None, "zh"),
        ("en", {"LANG": "zh_CN.UTF-8"}, None, "en"),
        (None, {}, None, "en"),
        ("", {"LANG": "zh_CN.UTF-8"}, "utf-8", "zh"),
        ("auto", {"LANG": "zh_CN.UTF-8"}, "utf-8", "zh"),
        ("auto", {"LANG": "zh"}, "utf-8", "zh"),
        ("auto", {"LANG": "zh-Hans-CN"}, "utf-8", "zh"),
        ("auto", {"LANG": "zha_CN.UTF-8"}, "utf-8", "en"),
        ("auto", {"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, "utf-8", "zh"),
        ("auto", {"LANG": "zh_CN.UTF-8", "LC_ALL": "C.UTF-8"}, "utf-8", "en"),
        ("auto", {"LANG": "zh_CN.UTF-8", "LC_ALL": ""}, "utf-8", "zh"),
        ("auto", {"LANG": "zh_CN.GB2312"}, "gb2312", "zh"),
        ("auto", {"LANG": "zh_TW.Big5"}, "big5", "en"),
        ("auto", {"LANG": "zh_CN"}, "ascii", "en"),
        ("zh", {"LANG": "zh_CN"}, "ascii", "zh"),
    ],
)
def test_which_language(wanted: str | None, environ: dict[str, str], encoding: str | None, language: str) -> None:
    assert language_of(wanted, environ, encoding=encoding) == language
