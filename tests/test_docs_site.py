"""The documentation site: tables that are made while it is built, and pages in two languages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs_pages import DOCS, PAGES, ROOT, blocks, copy_project, docs_module, english, run

import pytest_msdump
import pytest_msdump.record
from pytest_msdump import cli
from pytest_msdump.capabilities.config.keys import ACL_KEYS, ACL_MODEL_KEYS, DUMP_KEYS
from pytest_msdump.capabilities.diagnosis.text import DIAGNOSES
from pytest_msdump.capabilities.inspect.check_facts import CHECKS
from pytest_msdump.core import errors
from pytest_msdump.core.facts.dtypes import ALIASES, DTYPES
from pytest_msdump.core.facts.metrics import METRICS, SHORT_FORMS
from pytest_msdump.core.facts.profiles import PROFILES
from pytest_msdump.core.report.json_report import read_json
from pytest_msdump.core.settings.options import FIXTURE_OPTIONS, OPTIONS, OUTPUT_OPTIONS
from pytest_msdump.core.text.phrases import catalogue
from pytest_msdump.core.text.unmatched import UNMATCHED
from pytest_msdump.plugin import fixtures

EN, ZH = catalogue("en"), catalogue("zh")

TRANSLATED = [page for page in PAGES if page != english(page)]
CHINESE_SIGN = re.compile(r"[\u4e00-\u9fff]")


tables = docs_module("tables")
check_site = docs_module("check_site")


def _built(page: str, language: str = "en") -> str:
    return str(tables.expand((DOCS / "reference" / page).read_text(encoding="utf-8"), language))


def _tables(page: str) -> str:
    """Only what the tables of a page add to it."""
    text = (DOCS / "reference" / page).read_text(encoding="utf-8")
    return "".join(tables.expand(f"{asked}\n") for asked in re.findall(r"^<!-- table: .+ -->$", text, re.MULTILINE))


# -- tables ------------------------------------------------------------------------------------------------------------

_DECLARED = (*OPTIONS, *FIXTURE_OPTIONS, *OUTPUT_OPTIONS)
_OPTIONS = [
    *(flag for one in _DECLARED for flag in one.flags),
    *(name for one in _DECLARED for name in (one.ini, one.toml)),
]
_RAISED = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.MsdumpError)]
HELD = {
    "options.md": [*filter(None, _OPTIONS), "--scheduler", "--user-code"],
    "metrics.md": [*METRICS, *SHORT_FORMS],
    "profiles.md": [*PROFILES, "0.999999", "1e-07", "0.005"],
    "messages.md": [
        *(one.slug for one in _RAISED),
        *(one.__name__ for one in _RAISED),
        *(catalogue("en").keys() - UNMATCHED[0]),
    ],
    "reasons.md": list(UNMATCHED[0]),
    "diagnoses.md": list(DIAGNOSES),
    "exit_codes.md": list(map(str, cli.EXIT_CODES)),
    "data_types.md": [*DTYPES, *ALIASES],
    "dump_configurations.md": [key.name for key in (*DUMP_KEYS, *ACL_KEYS, *ACL_MODEL_KEYS)],
    "../howto/check_one_dump.md": list(CHECKS),
    "python.md": [*pytest_msdump.__all__, *pytest_msdump.record.__all__, *fixtures.__all__, "msdump_pairs(left=None"],
}


@pytest.mark.parametrize("page", HELD)
def test_a_page_holds_each_name_of_its_table(page: str) -> None:
    # A cell begins with its name, or has it among others; a directive ends with it.
    words = set(re.findall(r"[^\s|`,=(\]]+", _tables(page).replace("<br>", " ").replace("(#", " ")))
    ends = {word.rpartition(".")[2] for word in words}
    assert [name for name in HELD[page] if name.partition("(")[0] not in words | ends] == []


@pytest.mark.e2e
def test_the_page_of_options_holds_what_the_help_prints(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    page = _built("options.md")
    for command in ("pytest -p no:cacheprovider --help", "msdump compare --help"):
        code, printed = run(command, project, tmp_path)
        flags = set(re.findall(r"^\s+(?:-\w+(?: \w+)?, )*(--[\w-]+)", "\n".join(printed), re.MULTILINE))
        ours = {flag for flag in flags if "msdump" in flag or command.startswith("msdump")} - {"--help"}
        assert (code, len(ours) > 20) == (0, True)
        assert [flag for flag in sorted(ours) if not re.search(rf"`{flag}[`= ]", page)] == []


@pytest.mark.e2e
def test_the_page_of_results_json_holds_each_key_of_a_real_one(tmp_path: Path) -> None:
    project = copy_project(tmp_path)
    code, printed = run("pytest -q --tb=no example_suites/02_failing_on_purpose", project, tmp_path)
    assert code == 1, "\n".join(printed)
    report = read_json(project / "msdump-report" / "results.json")
    record, unmatched = report["tensors"][3], report["unmatched"][0]
    keys = {*report, *report["counts"], *report["coverage"], *report["left"], *record, *record["left"], *unmatched}
    keys |= {*record["nonfinite"], *record["worst"][0], *record["findings"][0], *record["checks"][0]}
    page = _built("results_json.md")
    assert [key for key in sorted(keys) if not re.search(rf"`(?:\w+\.)*{key}`", page)] == []


def test_every_key_of_results_json_has_a_meaning_and_no_meaning_is_left_over() -> None:
    used = {tables.meaning_of(path) for path, _ in tables.result_keys()}
    assert used == tables.meanings().keys()


def test_a_chinese_page_gets_chinese_sentences() -> None:
    assert ZH["inserted"] in _built("reasons.md", "zh_CN")
    errors_table = tables.expand("<!-- table: errors -->\n", "zh_CN")
    assert [line for line in errors_table.splitlines()[2:] if not CHINESE_SIGN.search(line)] == []


# -- two languages -----------------------------------------------------------------------------------------------------


def _id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _levels(page: Path) -> list[int]:
    """The levels of a page's headings, in order."""
    text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [len(signs) for signs in re.findall(r"^(#+) ", text, flags=re.MULTILINE)]


def _asked(page: Path) -> list[str]:
    """The tables that a page asks for, in order."""
    return re.findall(r"^<!-- table: (.+) -->$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)


def differences(page: Path, original: Path) -> list[str]:
    """What a translation has otherwise than its original, apart from words."""
    found = [] if _levels(page) == _levels(original) else [f"headings: {_levels(page)}, not {_levels(original)}"]
    found += [] if _asked(page) == _asked(original) else [f"tables: {_asked(page)}, not {_asked(original)}"]
    ours, theirs = list(blocks(page)), list(blocks(original))
    if [(one.kind, one.note, one.value) for one in ours] != [(one.kind, one.note, one.value) for one in theirs]:
        return [*found, "its blocks are others, or in another order, or have other comments above them"]
    for block, other in zip(ours, theirs, strict=True):
        place = f"line {block.line + 1}"
        if block.kind == "console":
            if [one.text for one in block.commands()] != [one.text for one in other.commands()]:
                found.append(f"{place}: other commands")
            lines = [line for line in block.lines if line not in other.lines and not CHINESE_SIGN.search(line)]
            found += [f"{place}: not printed on the English page: {line}" for line in lines]
        elif block.kind not in ("", "text") and block.lines != other.lines:
            found.append(f"{place}: another file")
    return found


@pytest.mark.parametrize("page", TRANSLATED, ids=_id)
def test_a_chinese_page_has_the_commands_files_and_headings_of_the_english_one(page: Path) -> None:
    assert english(page).exists(), f"there is no {english(page)}"
    assert differences(page, english(page)) == []


# -- links of the built site -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("other.html#there", ""),
        ("#here", ""),
        ("https://example.org/a?b=c#d", ""),
        ("mailto:someone@example.org", ""),
        ("missing.html", "there is no"),
        ("other.html#nowhere", "has no"),
        ("english:other.html", "no address"),
        ("http:///nohost", "no address"),
        ("https://repository.test/r/blob/main/README.md", ""),
        ("https://repository.test/r/blob/main/nothing.md", "there is no"),
    ],
)
def test_a_link_of_the_site_that_leads_nowhere_is_found(tmp_path: Path, link: str, problem: str) -> None:
    (tmp_path / "index.html").write_text(f'<p id="here"><a href="{link}">x</a></p>', encoding="utf-8")
    (tmp_path / "other.html").write_text('<p id="there">y</p>', encoding="utf-8")
    found = check_site.problems(tmp_path, "https://repository.test/r")
    assert [problem in one for one in found] == ([True] if problem else [])


def test_a_picture_that_is_a_page_of_the_repository_is_found(tmp_path: Path) -> None:
    address = "https://repository.test/r/blob/main/docs/_static/page.png"
    (tmp_path / "shown.html").write_text(f'<img src="{address}">', encoding="utf-8")
    (tmp_path / "linked.html").write_text(f'<a href="{address}"><img src="shown.html"></a>', encoding="utf-8")
    (problem,) = check_site.problems(tmp_path, "https://repository.test/r")
    assert problem.startswith("shown.html")
    assert "no picture" in problem
