"""README, docs, SKILL.md, `--help` and the schemas name the same commands, options and keys, in both directions."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from docs_pages import DOCS, PAGES, ROOT, blocks, docs_module

from pytest_msdump import cli
from pytest_msdump.core.settings.options import FIXTURE_OPTIONS, OPTIONS, OUTPUT_OPTIONS

SKILL = ROOT / "SKILL.md"
# Pages for users; those for contributors name options of scripts.
READ = [page for page in (*PAGES, SKILL) if page.parent.name != "benchmarks" and page.name != "CONTRIBUTING.md"]
SCHEMAS = Path(cli.__file__).parent / "schemas"
PYTEST_FLAGS = {flag for one in (*OPTIONS, *FIXTURE_OPTIONS, *OUTPUT_OPTIONS) for flag in one.flags}
# What pages name of pytest, atc and Polygraphy.
OF_OTHERS = {"--collect-only", "--junitxml", "--lf", "--save-inputs"}
FILES = {"csv", "html", "json", "jsonl", "npy", "npz", "onnx", "pt", "py", "toml"}

tables = docs_module("tables")


def _parsers(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb, own in action.choices.items():
                yield from _parsers(own, f"{name} {verb}")


COMMANDS: Mapping[str, argparse.ArgumentParser] = {
    name.removeprefix("msdump "): parser
    for command in cli.COMMANDS
    for name, parser in _parsers(cli._parser([command]), "msdump")
    if name.split()[1:2] == [command]
}
FLAGS = {name: set(parser._option_string_actions) for name, parser in COMMANDS.items()}
VENDOR_FLAGS = {
    name
    for tool, grammar in (
        ("compare_vector", "GRAMMAR"),
        ("msaccucmp", "GRAMMAR"),
        ("msaccucmp_commands", "CONVERT"),
        ("msaccucmp_commands", "OVERFLOW"),
        ("mscmp_advisor", "GRAMMAR"),
    )
    for flag in getattr(import_module(f"pytest_msdump.capabilities.compat.{tool}"), grammar).flags
    for name in flag.names
}


def _id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _typed(page: Path) -> Iterator[list[str]]:
    """The words of each program that the page starts, in console blocks and in lines of code."""
    lines = [command.text for block in blocks(page) if block.kind == "console" for command in block.commands()]
    text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    lines += re.findall(r"`((?:msdump|pytest) [^`]+)`", text)
    for line in lines:
        for part in re.split(r"&&|\|\||[;|]", line.replace("\\\n", " ")):
            try:
                words = shlex.split(part)
            except ValueError:
                words = part.split()
            while words and re.match(r"\w+=", words[0]):
                words.pop(0)
            if words:
                yield [Path(words[0]).name, *words[1:]]


# -- what pages name is there ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", READ, ids=_id)
def test_every_command_and_flag_that_a_page_types_is_there(page: Path) -> None:
    unknown = []
    for program, *words in _typed(page):
        flags = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
        if program == "msdump" and words and re.fullmatch("[a-z]+", words[0]):
            names = [" ".join(words[:count]) for count in (2, 1)]
            known = next((FLAGS[name] for name in names if name in FLAGS), None)
            if known is None:
                unknown.append(f"msdump {words[0]}")
            # Behind -- stands another program's command.
            own = flags if "--" not in words else [flag for flag in flags if flag in words[: words.index("--")]]
            unknown += [f"{words[0]} {flag}" for flag in own if known is not None and flag not in known]
        elif program == "pytest":
            unknown += [flag for flag in flags if flag.startswith("--msdump") and flag not in PYTEST_FLAGS]
    assert unknown == []


@pytest.mark.parametrize("page", READ, ids=_id)
def test_every_option_that_a_page_names_is_there(page: Path) -> None:
    ours = {*PYTEST_FLAGS, *VENDOR_FLAGS, *(flag for flags in FLAGS.values() for flag in flags)}
    named = set(re.findall(r"`(--[a-z][\w-]*)", page.read_text("utf-8")))
    assert sorted(named - ours - OF_OTHERS) == []


# -- and the other way round -------------------------------------------------------------------------------------------


def test_every_command_and_option_is_named_in_the_docs() -> None:
    pages = [page for page in DOCS.rglob("*.md") if "zh" not in page.relative_to(DOCS).parts]
    words = set(re.findall(r"--[\w-]+|msdump \w+", "\n".join(tables.expand(page.read_text("utf-8")) for page in pages)))
    options = {flag for flags in FLAGS.values() for flag in flags if flag.startswith("--")}
    commands = {f"msdump {name}" for name in cli.COMMANDS}
    assert sorted((PYTEST_FLAGS | options | commands) - words) == []


# -- keys of documents -------------------------------------------------------------------------------------------------


def _schema_paths(schema: Any, above: str = "") -> Iterator[str]:
    """The keys of a schema, each by its path."""
    for key, value in schema.get("properties", {}).items():
        yield f"{above}{key}"
        yield from _schema_paths(value, f"{above}{key}.")
    for part in (*schema.get("anyOf", ()), *([schema["items"]] if isinstance(schema.get("items"), dict) else [])):
        yield from _schema_paths(part, above)


RESULT_PATHS = {path for path, _ in tables.result_keys()}
DOCUMENT_PATHS = {
    path for file in SCHEMAS.glob("*.json") for path in _schema_paths(json.loads(file.read_text("utf-8")))
}


@pytest.mark.parametrize("page", READ, ids=_id)
def test_every_key_of_a_document_that_a_page_names_by_its_path_is_there(page: Path) -> None:
    known = {f".{path}" for path in RESULT_PATHS | DOCUMENT_PATHS}
    heads = {path.rpartition(".")[0].rpartition(".")[2] for path in known} - {""}
    named = re.findall(r"`([a-z_]+(?:\[\d+\])?(?:\.[a-z_]+)+)`", page.read_text("utf-8"))
    paths = [re.sub(r"\[\d+\]", "", name) for name in named]
    keys = [path for path in paths if path.partition(".")[0] in heads and path.rpartition(".")[2] not in FILES]
    assert [path for path in keys if not any(one.endswith(f".{path}") for one in known)] == []


def test_the_skill_names_keys_of_the_verdict_alone() -> None:
    verdict = set(_schema_paths(json.loads((SCHEMAS / "verdict.json").read_text("utf-8"))))
    first_cells = re.findall(r"^\| (`.+?) \|", SKILL.read_text("utf-8"), re.MULTILINE)
    named = [re.sub(r"\[\d+\]", "", name) for cell in first_cells for name in re.findall(r"`([^`]+)`", cell)]
    known = {end for path in verdict for end in (path, path.rpartition(".")[2])} | {"pass", "fail"}
    assert len(named) >= 8
    assert [name for name in named if name not in known] == []


def test_every_schema_is_listed() -> None:
    page = tables.expand((DOCS / "reference" / "commands.md").read_text("utf-8"))
    assert [file.name for file in SCHEMAS.glob("*.json") if file.name not in page] == []
