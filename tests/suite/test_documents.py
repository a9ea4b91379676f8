"""Files from disk: every fault is one line with its place."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from unittest import mock

import pytest

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.suite import read_toml
from pytest_msdump.core.suite.documents import read_json


def toml_refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as excinfo:
        read_toml(path, name="msdump.toml")
    assert "\n" not in str(excinfo.value)
    return str(excinfo.value)


def test_a_document_is_read_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "plain.toml").write_bytes('a = "ä"\r\nb = 1\r\n'.encode())
    (tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbfa = 1\n")
    assert read_toml(tmp_path / "plain.toml") == {"a": "ä", "b": 1}
    assert read_toml(tmp_path / "marked.toml") == {"a": 1}


@pytest.mark.parametrize(
    ("content", "start"),
    [
        (b"[msdump]\nleft = \n", "msdump.toml line 2 column 8: "),
        (b"[msdump\n", "msdump.toml line 1 column 8: "),
        (b"a = 1\na = 2\n", "msdump.toml line 2 column 6: "),
        (b'a = "x', "msdump.toml line 1 column 7: "),
        (b"b = 1\na = [1,", "msdump.toml line 2 column 8: "),
        (b"a = 1\nb = \xff\n", "msdump.toml line 2 column 5: not UTF-8 (byte 0xff)"),
        (b"\xff", "msdump.toml line 1 column 1: not UTF-8 (byte 0xff)"),
    ],
)
def test_bad_toml_is_one_line_with_line_and_column(tmp_path: Path, content: bytes, start: str) -> None:
    (tmp_path / "x").write_bytes(content)
    said = toml_refusal(tmp_path / "x")
    assert said.startswith(start)
    assert "(at " not in said


@pytest.mark.parametrize("content", [b"a = " + b"9" * 5000, b"a = " + b"[" * 100_000, b"a = 2027-02-30"])
def test_what_breaks_a_toml_parser_is_a_refusal_like_any_other(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    assert toml_refusal(tmp_path / "x").startswith("msdump.toml")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert toml_refusal(tmp_path / "x") == "msdump.toml: there is no such file; check which file was named"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert toml_refusal(tmp_path / "pipe").startswith("msdump.toml: cannot be read: it is a pipe, not a file; ")


def test_sixteen_mebibytes_are_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    whole = b"#" + b"x" * (16 * 1024 * 1024 - 2) + b"\n"
    (tmp_path / "x").write_bytes(whole)
    assert read_toml(tmp_path / "x") == {}
    (tmp_path / "x").write_bytes(whole + b"\n")
    assert toml_refusal(tmp_path / "x").startswith("msdump.toml: cannot be read: it is larger than 16 MiB; ")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b'{"a": }', "x.json line 1 column 7: Expecting value"),
        (b"{\n,", "x.json line 2 column 1: Expecting property name enclosed in double quotes"),
        (b"\xff", "x.json line 1 column 1: not UTF-8 (byte 0xff)"),
    ],
)
def test_bad_json_is_one_line_with_line_and_column(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ConfigError) as excinfo:
        read_json(tmp_path / "x", name="x.json")
    assert str(excinfo.value) == sentence


@pytest.mark.parametrize("content", [b"[" * 100_000, b"9" * 5000])
def test_what_breaks_a_json_parser_is_a_refusal_like_any_other(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ConfigError, match=r"^x\.json: not valid JSON: [^\n]*$"):
        read_json(tmp_path / "x", name="x.json")


@pytest.mark.parametrize(
    "line",
    [
        ".".join(["a"] * 30_000) + " = 1",
        "left = {" + " . ".join(["a"] * 30_000) + " = 1}",
        "[" + ".".join(['"a b"'] * 30_000) + "]",
        ".".join(["'a.b'"] * 101) + " = 1",
    ],
)
def test_a_key_of_very_many_parts_is_refused_before_it_is_parsed(tmp_path: Path, line: str) -> None:
    (tmp_path / "x").write_text(f"a = 1\n{line}\n")
    with mock.patch("tomllib.loads" if sys.version_info >= (3, 11) else "tomli.loads", side_effect=AssertionError):
        said = toml_refusal(tmp_path / "x")
    assert said == "msdump.toml line 2: a key of more than 100 parts; is it the right file?"
