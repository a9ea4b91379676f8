"""What the documentation says is so: its commands run and print what it shows, its tables are the program's own."""

from __future__ import annotations

import argparse
import importlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from docs_pages import PAGES, ROOT, Block, anchors, blocks, copy_project, excerpt, links, prints_as_said, run

from pytest_msdump import errors
from pytest_msdump.facts.checks import CHECKS
from pytest_msdump.facts.metrics import METRICS
from pytest_msdump.facts.profiles import PROFILES
from pytest_msdump.settings import FIXTURE_OPTIONS, OPTIONS, OUTPUT_OPTIONS
from pytest_msdump.suite import load_suite, read_toml

REFERENCE = ROOT / "docs" / "reference"
HOW_TO = ROOT / "docs" / "howto"
# Commands that no test runs, and those that tests/live runs.
NOT_HERE = ("not run", "live")
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]


def _id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _runs(page: Path) -> bool:
    return any(block.kind == "console" and block.note not in NOT_HERE for block in blocks(page))


# -- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.e2e
@pytest.mark.parametrize("page", [page for page in PAGES if _runs(page)], ids=_id)
def test_every_command_of_a_page_runs_and_prints_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path, copy_project(tmp_path))
    for block in blocks(page):
        if block.note == "file":
            (reader.folder / block.value).write_text(block.text, encoding="utf-8")
        elif block.kind == "console" and block.note not in NOT_HERE:
            reader.follow(block)
    if os.environ.get("MSDUMP_DOCS_REWRITE"):
        _rewrite(page, reader.shown)
    hint = (
        "\nIf that is how it should be now: MSDUMP_DOCS_REWRITE=1 pytest tests/test_docs.py, and read the difference."
    )
    assert not reader.failed, "\n".join(reader.failed) + hint


@dataclass
class Reader:
    """Somebody who types the commands of a page: where they are, and what was not as the page says."""

    home: Path
    folder: Path
    failed: list[str] = field(default_factory=list)
    shown: dict[int, tuple[int, list[str]]] = field(default_factory=dict)

    def follow(self, block: Block) -> None:
        """Type the commands of a block."""
        expected = int(block.value) if block.note == "exit" else 0
        for command in block.commands():
            if command.text.startswith("cd "):
                self.folder = (self.folder / command.text[3:]).resolve(strict=True)
                continue
            code, printed = run(command.text, self.folder, self.home)
            told = f"line {command.last + 1}: $ {command.text}\n"
            if code != expected:
                self.failed.append(f"{told}exit code {code}, not {expected}; it printed\n" + "\n".join(printed))
            if command.printed and not prints_as_said(command.printed, printed):
                self.failed.append(f"{told}did not print what the page shows, but\n" + "\n".join(printed))
                self.shown[command.last] = (command.end, excerpt(command.printed, printed))


def _rewrite(page: Path, shown: dict[int, tuple[int, list[str]]]) -> None:
    """Put into the page what its commands printed; asked for by MSDUMP_DOCS_REWRITE=1."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for line in sorted(shown, reverse=True):
        end, printed = shown[line]
        lines[line + 1 : end + 1] = printed
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_a_command_is_left_out_only_where_it_needs_the_network_or_a_framework(page: Path) -> None:
    for block in blocks(page):
        if block.kind == "console" and block.note == "not run":
            for command in block.commands():
                assert re.search(
                    r"pip install|make_dumps\.py|\.ci/run|git clone|benchmarks/|campaign/|^atc |s3://",
                    command.text,
                ), command.text


def test_the_readme_has_the_two_commands_of_a_fresh_machine() -> None:
    commands = [command.text for block in blocks(ROOT / "README.md") for command in block.commands()]
    assert (
        "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/pytest example_suites/01_lenet_port" in commands
    )
    assert (
        "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest -n auto -m \"not e2e\""
        in commands
    )


# -- suite files and links --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_every_suite_file_shown_can_be_loaded(page: Path, tmp_path: Path) -> None:
    for number, block in enumerate(blocks(page)):
        if block.kind != "toml":
            continue
        file = tmp_path / f"{number}.toml"
        file.write_text(block.text, encoding="utf-8")
        document = read_toml(file)
        table = document.get("msdump") or document.get("tool", {}).get("msdump")
        if table is not None:
            table = {"left": "run", "right": "reference", **table}
            load_suite(file=None, table=table, options={}, directory=tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link}: there is no {target}"
        assert not anchor or anchor in anchors(target), f"{link}: {target.name} has only {sorted(anchors(target))}"


def test_every_page_of_docs_is_reached_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    reached = {(index.parent / link.partition("#")[0]).resolve() for link in links(index) if "//" not in link}
    assert {page for page in PAGES if "docs" in page.parts and page != index} <= reached


# -- tables that must be the program's own ----------------------------------------------------------------------------


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table as the reference pages have it."""
    lines = [titles, tuple("---" for _ in titles), *rows]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)


def _code(text: str | None) -> str:
    return f"`{text}`" if text else "–"


def test_the_table_of_options_is_the_programs() -> None:
    rows = [
        (
            "<br>".join(f"`{flag}={option.metavar}`".replace("=`", "`") for flag in option.flags),
            _code(option.ini),
            _code(option.toml),
            ", ".join(f"`{flag}`" for flag in option.cli_flags if option.name != "granularity") or "–",
            option.help,
            option.default or "–",
        )
        for option in OPTIONS
    ]
    table = _table(("pytest", "ini key", "suite file", "`msdump compare`", "meaning", "default"), rows)
    assert table in (REFERENCE / "options.md").read_text(encoding="utf-8"), f"options.md should hold\n{table}"


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_options_of_pytest_are_written_with_an_equals_sign(page: Path) -> None:
    """After a space pytest takes the value for a path of tests, and may lose its ini file."""
    declared = (*OPTIONS, *FIXTURE_OPTIONS, *OUTPUT_OPTIONS)
    flags = "|".join(flag for option in declared if option.kind != "switch" for flag in option.flags)
    # A word of prose may follow; what is typed comes in a line of code.
    code = re.findall(r"```.*?```|`[^`\n]+`", page.read_text("utf-8"), re.DOTALL)
    assert [found for text in code for found in re.findall(rf"(?:{flags})\s+[^-\s|].*", text)] == []


def test_the_table_of_fixtures_options_is_the_programs() -> None:
    rows = [
        (
            "<br>".join(f"`{flag}={option.metavar}`".replace("=`", "`") for flag in option.flags),
            _code(option.ini),
            option.help,
            option.default or "–",
        )
        for option in FIXTURE_OPTIONS
    ]
    table = _table(("pytest", "ini key", "meaning", "default"), rows)
    assert table in (REFERENCE / "options.md").read_text(encoding="utf-8"), f"options.md should hold\n{table}"


def test_the_table_of_what_is_told_is_the_programs() -> None:
    rows = [
        (
            ", ".join(f"`{flag}={option.metavar}`".replace("=`", "`") for flag in option.flags),
            _code(option.ini),
            ", ".join(f"`{flag} {option.metavar}`".replace(" `", "`") for flag in option.cli_flags),
            option.help,
            option.default or "–",
        )
        for option in OUTPUT_OPTIONS
    ]
    table = _table(("pytest", "ini key", "`msdump compare`", "meaning", "default"), rows)
    assert table in (REFERENCE / "options.md").read_text(encoding="utf-8"), f"options.md should hold\n{table}"


def test_the_table_of_metrics_is_the_programs() -> None:
    words = {"high": "fails below", "low": "fails above", "none": "takes no limit"}
    rows = [(_code(name), _code(fact.short), words[fact.direction]) for name, fact in METRICS.items()]
    table = _table(("metric", "short form", "its limit"), rows)
    assert table in (REFERENCE / "metrics.md").read_text(encoding="utf-8"), f"metrics.md should hold\n{table}"


def test_the_table_of_data_types_is_the_programs() -> None:
    from pytest_msdump.facts.dtypes import ALIASES, DTYPES
    from pytest_msdump.facts.dump_proto import DATA_TYPES

    rows = [
        (
            _code(name),
            fact.kind,
            str(fact.bits or "–"),
            _code(fact.native),
            f"{fact.maximum:.6g}" if fact.maximum and fact.native else "–",
            ", ".join(_code(alias) for alias, target in ALIASES.items() if target == name) or "–",
            ", ".join(f"{number} `{kind.label}`" for number, kind in DATA_TYPES.items() if kind.dtype == name) or "–",
        )
        for name, fact in DTYPES.items()
    ]
    titles = ("type", "kind", "bits", "values become", "largest", "also written", "in Ascend dumps")
    table = _table(titles, rows)
    assert table in (REFERENCE / "data_types.md").read_text(encoding="utf-8"), f"data_types.md should hold\n{table}"


def test_every_flag_of_msdump_compare_is_documented() -> None:
    from pytest_msdump.cli import compare

    parser = argparse.ArgumentParser(add_help=False)
    compare.add_arguments(parser)
    flags = [flag for action in parser._actions for flag in action.option_strings]
    page = (REFERENCE / "options.md").read_text(encoding="utf-8")
    assert len(flags) > 20
    assert [flag for flag in flags if not re.search(rf"`{flag}[` ]", page)] == []


@pytest.mark.parametrize(
    ("tool", "name", "title"),
    [
        ("compare_vector", "GRAMMAR", "compare_vector"),
        ("msaccucmp", "GRAMMAR", "msaccucmp compare"),
        ("msaccucmp_commands", "OVERFLOW", "msaccucmp overflow"),
        ("inplace_layer_process", "GRAMMAR", "inplace_layer_process"),
    ],
)
def test_every_flag_of_the_vendors_commands_is_documented(tool: str, name: str, title: str) -> None:
    grammar = getattr(importlib.import_module(f"pytest_msdump.compat.{tool}"), name)
    page = (REFERENCE / "compat.md").read_text(encoding="utf-8")
    told = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert [flag.names[0] for flag in grammar.flags if not re.search(rf"`{flag.names[0]}[` ]", told)] == []


@pytest.mark.parametrize("profile", PROFILES)
def test_the_table_of_a_profile_is_the_programs(profile: str) -> None:
    rows = [
        (_code(kind), ", ".join(f"`{metric}` {'>=' if METRICS[metric].direction == 'high' else '<='} {bound:g}"
                                for metric, bound in bounds.items()))
        for kind, bounds in PROFILES[profile].rows.items()
    ]  # fmt: skip
    table = _table((f"`{profile}`, version {PROFILES[profile].version}", "limits"), rows)
    assert table in (REFERENCE / "profiles.md").read_text(encoding="utf-8"), f"profiles.md should hold\n{table}"


def test_the_table_of_diagnoses_is_the_programs() -> None:
    from pytest_msdump.facts.diagnoses import DIAGNOSES

    rows = [
        (_code(name), fact.title, fact.sentence, ", ".join(f"`{other}`" for other in sorted(fact.within)) or "–")
        for name, fact in DIAGNOSES.items()
    ]
    table = _table(("`id`", "told as", "meaning", "more specific than"), rows)
    assert table in (REFERENCE / "diagnoses.md").read_text(encoding="utf-8"), f"diagnoses.md should hold\n{table}"


def test_the_table_of_checks_is_the_programs() -> None:
    rows = [
        (f"`{name}`", fact.says, ", ".join(f"`{key}` {'–' if value is None else f'{value:g}'}"
                                           for key, value in fact.parameters.items()))
        for name, fact in CHECKS.items()
    ]  # fmt: skip
    table = _table(("check", "hits when", "thresholds"), rows)
    page = (HOW_TO / "check_one_dump.md").read_text(encoding="utf-8")
    assert table in page, f"check_one_dump.md should hold\n{table}"


def test_every_slug_of_an_error_is_explained() -> None:
    slugs = {
        error.slug
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.MsdumpError)
    }
    titles = re.findall(r"^## `(.+)`$", (REFERENCE / "messages.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(titles) == sorted(slugs)


def test_every_key_of_a_suite_file_is_documented() -> None:
    from pytest_msdump.suite import keys as suite_keys

    text = (REFERENCE / "suite_file.md").read_text(encoding="utf-8")
    name = suite_keys.FileName("msdump.toml", "msdump.toml", "msdump")
    metrics = {*METRICS, *(fact.short for fact in METRICS.values())}
    keys = {
        *suite_keys._file_keys(name, ROOT),
        *suite_keys._ENTRY_KEYS,
        *suite_keys._SIDE_KEYS,
        *suite_keys._RULE_KEYS.keys() - metrics,
        *suite_keys._DRIFT_KEYS.keys() - metrics,
    }
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []


def test_every_memory_format_has_its_row() -> None:
    from pytest_msdump.facts.memory_formats import MEMORY_FORMATS

    table = re.findall(r"^\| (`.+`) \|", (REFERENCE / "memory_formats.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(" ".join(table).replace("`", "").split()) == sorted(MEMORY_FORMATS)


def test_every_reason_is_told_in_its_own_words() -> None:
    from pytest_msdump.text.en import EN

    page = (REFERENCE / "reasons.md").read_text(encoding="utf-8")
    words = {"op": "OP", "rule": "RULE", "slot": "N", "group": "G", "io": "input/output"}
    words |= {
        "scope": "SCOPE",
        "type": "TYPE",
        "side": "left/right",
        "n": "N",
        "ours": "N",
        "theirs": "M",
    }
    words |= {"left": "SHAPE", "right": "SHAPE"}
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", page, re.MULTILINE))
    templates = {code: re.sub(r"{(\w+):\w+}", r"{\1}", str(EN[code])) for code in rows}
    assert rows == {code: template.format(**words) for code, template in templates.items()}
    assert {"inserted", "inner", "right_input"} < rows.keys()


@pytest.mark.e2e
def test_every_key_of_results_json_is_documented(tmp_path: Path) -> None:
    import json

    project = copy_project(tmp_path)
    code, printed = run("pytest -q --tb=no example_suites/02_failing_on_purpose", project, tmp_path)
    assert code == 1, "\n".join(printed)
    report = json.loads((project / "msdump-report" / "results.json").read_text(encoding="utf-8"))
    record, unmatched = report["tensors"][3], report["unmatched"][0]
    keys = {*report, *report["counts"], *report["coverage"], *report["left"], *record, *record["left"], *unmatched}
    keys |= {*record["nonfinite"], *record["worst"][0], *record["findings"][0], *record["checks"][0]}
    text = (REFERENCE / "results_json.md").read_text(encoding="utf-8")
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []


def test_the_picture_of_the_house_names_every_room() -> None:
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    rooms = [path for path in (ROOT / "pytest_msdump").iterdir() if path.is_dir() and (path / "__init__.py").exists()]
    assert [room.name for room in sorted(rooms) if f"`{room.name}" not in text] == []


def test_every_dependency_has_its_reason() -> None:
    file = read_toml(ROOT / "pyproject.toml")["project"]
    text = (ROOT / "docs" / "explanation" / "dependencies.md").read_text(encoding="utf-8")
    extras = [name for group in file["optional-dependencies"].values() for name in group]
    for requirement in [*file["dependencies"], *extras]:
        name = re.split(r"[\[><=; ]", requirement)[0]
        assert name == "pytest-msdump" or f"`{name}`" in text, name


# -- the checks themselves --------------------------------------------------------------------------------------------


@pytest.mark.e2e
def test_a_page_that_shows_what_is_not_printed_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one; echo two\none\n```\n", encoding="utf-8")
    [block] = blocks(page)
    reader = Reader(tmp_path, tmp_path)
    reader.follow(block)
    assert len(reader.failed) == 1


@pytest.mark.parametrize(
    ("said", "is_so"),
    [
        (["one", "two"], True),
        (["one"], False),
        (["one", "..."], True),
        (["...", "two"], True),
        (["...", "three"], False),
        (["one", "two", "three"], False),
    ],
)
def test_lines_are_matched_whole_and_in_order(said: list[str], is_so: bool) -> None:
    assert prints_as_said(said, ["one", "two"]) is is_so
