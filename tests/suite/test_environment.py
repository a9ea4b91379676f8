"""`@env`: where MindSpore's own dump configuration writes to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.suite import load_suite


def left(folder: Path, environ: dict[str, str], text: str = "@env", file: Path | None = None) -> Path:
    options = {"left": text, "right": "ref"} if file is None else {"right": "ref"}
    return load_suite(file=file, options=options, directory=folder, environ=environ).left.path


def configuration(folder: Path, content: Any) -> dict[str, str]:
    path = folder / "data_dump.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return {"MINDSPORE_DUMP_CONFIG": str(path)}


def refusal(folder: Path, environ: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as excinfo:
        left(folder, environ)
    assert "\n" not in str(excinfo.value)
    return str(excinfo.value).replace(str(folder), "")


def test_a_relative_configuration_file_is_below_the_working_folder(tmp_path: Path) -> None:
    configuration(tmp_path, {"common_dump_settings": {"path": "/data/dumps"}})
    assert left(tmp_path, {"MINDSPORE_DUMP_CONFIG": "data_dump.json"}) == Path("/data/dumps")


@pytest.mark.parametrize("common", [{"path": ""}, {}])
def test_without_a_path_it_is_the_diagnostic_directory(tmp_path: Path, common: dict[str, str]) -> None:
    environ = configuration(tmp_path, {"common_dump_settings": common}) | {"MS_DIAGNOSTIC_DATA_PATH": "/diag"}
    assert left(tmp_path, environ) == Path("/diag/debug_dump")


def test_env_that_is_overridden_is_not_looked_up(tmp_path: Path) -> None:
    file = tmp_path / "msdump.toml"
    file.write_text('[msdump]\nleft = "@env"\nright = "ref"\n', encoding="utf-8")
    suite = load_suite(file=file, options={"left": "run"}, directory=tmp_path, environ={})
    assert suite.left.path == tmp_path / "run"


@pytest.mark.parametrize("environ", [{}, {"MINDSPORE_DUMP_CONFIG": ""}])
def test_the_variable_must_be_set(tmp_path: Path, environ: dict[str, str]) -> None:
    assert refusal(tmp_path, environ) == (
        "--msdump-left: @env needs the variable MINDSPORE_DUMP_CONFIG, which is not set; set it, or name the directory"
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"a": }', "/data_dump.json line 1 column 7: Expecting value"),
        ([], "/data_dump.json has no table 'common_dump_settings'; is it a dump configuration?"),
        ({}, "/data_dump.json has no table 'common_dump_settings'; is it a dump configuration?"),
        (
            {"common_dump_settings": 3},
            "/data_dump.json has no table 'common_dump_settings'; is it a dump configuration?",
        ),
        (
            {"common_dump_settings": {"path": 3}},
            "/data_dump.json: common_dump_settings.path must be a text that can be a path",
        ),
        (
            {"common_dump_settings": {"path": "/a\0b"}},
            "/data_dump.json: common_dump_settings.path must be a text that can be a path",
        ),
        (
            {"common_dump_settings": {"path": "dumps"}},
            "/data_dump.json: common_dump_settings.path is 'dumps'; MindSpore takes absolute paths only",
        ),
        (
            {"common_dump_settings": {}},
            "/data_dump.json has no common_dump_settings.path, and MS_DIAGNOSTIC_DATA_PATH is not set",
        ),
    ],
)
def test_the_configuration_must_name_an_absolute_path(tmp_path: Path, content: Any, sentence: str) -> None:
    assert refusal(tmp_path, configuration(tmp_path, content)) == f"--msdump-left: @env: {sentence}"
