"""What the documentation says is so: its commands run and print what it shows, its tables are the program's own."""

from __future__ import annotations

import importlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from docs_pages import (
    CHINESE,
    DOCS,
    PAGES,
    ROOT,
    Block,
    anchors,
    blocks,
    columns,
    copy_project,
    docs_module,
    english,
    excerpt,
    links,
    prints_as_said,
    rewrite,
    run,
)

from pytest_msdump.core import errors
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.settings.options import FIXTURE_OPTIONS, OPTIONS, OUTPUT_OPTIONS
from pytest_msdump.core.suite import load_suite, read_toml

REFERENCE = DOCS / "reference"
# Commands that no test runs, and those that tests/live runs.
NOT_HERE = ("not run", "live")


def _id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _runs(page: Path) -> bool:
    """Whether a page has commands of its own: a translation that shows just what the English page does has none."""
    shown = [block for block in blocks(page) if block.kind == "console" and block.note not in NOT_HERE]
    return bool(shown) and (page == english(page) or _texts(page) != _texts(english(page)))


def _texts(page: Path) -> list[str]:
    return [block.text for block in blocks(page) if block.kind == "console"]


# -- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.e2e
@pytest.mark.parametrize("page", [page for page in PAGES if _runs(page)], ids=_id)
def test_every_command_of_a_page_runs_and_prints_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    # What a translation shows otherwise is Chinese, as under a Chinese locale.
    locale = "" if page == english(page) else "zh_CN.UTF-8"
    reader = Reader(tmp_path, copy_project(tmp_path), columns(page), locale)
    for block in blocks(page):
        if block.note == "file":
            (reader.folder / block.value).write_text(block.text, encoding="utf-8")
        elif block.kind == "console" and block.note not in NOT_HERE:
            reader.follow(block)
    if os.environ.get("MSDUMP_DOCS_REWRITE"):
        rewrite(page, reader.shown)
    hint = (
        "\nIf that is how it should be now: MSDUMP_DOCS_REWRITE=1 pytest tests/test_docs.py, and read the difference."
    )
    assert not reader.failed, "\n".join(reader.failed) + hint


@dataclass
class Reader:
    """Somebody who types the commands of a page: where they are, and what was not as the page says."""

    home: Path
    folder: Path
    columns: str = "100"
    locale: str = ""
    failed: list[str] = field(default_factory=list)
    shown: dict[int, tuple[int, list[str]]] = field(default_factory=dict)

    def follow(self, block: Block) -> None:
        """Type the commands of a block."""
        expected = int(block.value) if block.note == "exit" else 0
        for command in block.commands():
            if command.text.startswith("cd "):
                self.folder = (self.folder / command.text[3:]).resolve(strict=True)
                continue
            code, printed = run(command.text, self.folder, self.home, columns=self.columns, locale=self.locale)
            told = f"line {command.last + 1}: $ {command.text}\n"
            if code != expected:
                self.failed.append(f"{told}exit code {code}, not {expected}; it printed\n" + "\n".join(printed))
            if command.printed and not prints_as_said(command.printed, printed):
                self.failed.append(f"{told}did not print what the page shows, but\n" + "\n".join(printed))
                self.shown[command.last] = (command.end, excerpt(command.printed, printed))


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_a_command_is_left_out_only_where_it_needs_the_network_or_a_framework(page: Path) -> None:
    for block in blocks(page):
        if block.kind == "console" and block.note == "not run":
            for command in block.commands():
                assert re.search(
                    r"pip install|make_dumps\.py|\.ci/run|git clone|benchmarks[/.]|campaign/|^atc |s3://|--model |"
                    "dump_path",
                    command.text,
                ), command.text


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


@pytest.mark.parametrize("folder", [DOCS, CHINESE], ids=_id)
def test_every_page_of_docs_is_listed_in_the_contents(folder: Path) -> None:
    contents = folder / "contents.md"
    reached = {(folder / link.partition("#")[0]).resolve() for link in links(contents) if "//" not in link}
    pages = {page for page in folder.rglob("*.md") if folder == CHINESE or CHINESE not in page.parents}
    assert len(pages) > 1
    assert pages - {folder / "index.md", contents} <= reached


# -- tables that must be the program's own ----------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_options_of_pytest_are_written_with_an_equals_sign(page: Path) -> None:
    """After a space pytest takes the value for a path of tests, and may lose its ini file."""
    declared = (*OPTIONS, *FIXTURE_OPTIONS, *OUTPUT_OPTIONS)
    flags = "|".join(flag for option in declared if option.kind != "switch" for flag in option.flags)
    # A word of prose may follow; what is typed comes in a line of code.
    code = re.findall(r"```.*?```|`[^`\n]+`", page.read_text("utf-8"), re.DOTALL)
    assert [found for text in code for found in re.findall(rf"(?:{flags})\s+[^-\s|].*", text)] == []


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
    page = docs_module("tables").expand((REFERENCE / "compat.md").read_text(encoding="utf-8"))
    told = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert [flag.names[0] for flag in grammar.flags if not re.search(rf"`{flag.names[0]}[` ]", told)] == []


def test_every_slug_of_an_error_is_explained() -> None:
    slugs = {
        error.slug
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.MsdumpError)
    }
    titles = re.findall(r"^## `(.+)`$", (REFERENCE / "messages.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(titles) == sorted(slugs)


def test_every_key_of_a_suite_file_is_documented() -> None:
    from pytest_msdump.core.suite import keys as suite_keys

    text = (REFERENCE / "suite_file.md").read_text(encoding="utf-8")
    name = suite_keys.FileName("msdump.toml", "msdump.toml", "msdump")
    metrics = {*METRICS, *(fact.short for fact in METRICS.values())}
    keys = {
        *suite_keys._file_keys(name, ROOT),
        *suite_keys._ENTRY.keys,
        *suite_keys._SIDE.keys,
        *suite_keys._RULE.keys.keys() - metrics,
        *suite_keys._DRIFT.keys.keys() - metrics,
    }
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []


def test_every_memory_format_has_its_line() -> None:
    from pytest_msdump.core.facts.memory_formats import MEMORY_FORMATS

    page = (REFERENCE / "memory_formats.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\* (`[^,]+`), of", page, re.MULTILINE)
    assert sorted(" ".join(lines).replace("`", "").split()) == sorted(MEMORY_FORMATS)


# -- the checks themselves --------------------------------------------------------------------------------------------
