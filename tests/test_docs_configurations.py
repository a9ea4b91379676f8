"""The lists of `docs/reference/dump_configurations.md` are the program's own."""

from __future__ import annotations

import pytest
from docs_pages import ROOT

from pytest_msdump.capabilities.config.keys import ACL_KEYS, ACL_MODEL_KEYS, DUMP_KEYS, MODES, ConfigKey
from pytest_msdump.core.text import ENGLISH

TEXT = (ROOT / "docs" / "reference" / "dump_configurations.md").read_text(encoding="utf-8")
_KINDS = {
    "uint": "a number",
    "bool": "`true`, `false`",
    "text": "a text",
    "texts": "array of texts",
    "numbers": "array of numbers",
    "steps": "a text such as `0|5-8`",
    "path": "an absolute path",
    "name": "letters, digits, `-`, `_`",
    "models": "array of objects",
}
_FOREVER = (99,)
_FIRST = (1, 2)


def _json(value: object) -> str:
    return f'`"{value}"`' if isinstance(value, str) else f"`{str(value).lower()}`"


def _takes(key: ConfigKey) -> str:
    choices = ", ".join(map(_json, key.choices))
    return f"{_KINDS[key.kind]} of {choices}" if choices and key.kind == "texts" else choices or _KINDS[key.kind]


def _default(key: ConfigKey) -> str:
    if key.required:
        return "**needed**"
    if key.default is None:
        return ""
    return "default " + (", ".join(map(_json, key.default)) if isinstance(key.default, tuple) else _json(key.default))


def _versions(key: ConfigKey) -> str:
    since = "" if key.since == _FIRST else "since " + ".".join(map(str, key.since))
    until = "" if key.until == _FOREVER else "before " + ".".join(map(str, key.until))
    return " ".join(part for part in (since, until) if part)


def _modes(key: ConfigKey) -> str:
    left_out = [f"`{mode}`" for mode in MODES if mode not in key.modes]
    named = [f"`{mode}`" for mode in MODES if mode in key.modes]
    if not left_out:
        return ""
    return "only " + ", ".join(named) if len(named) <= len(left_out) + 1 else "all but " + ", ".join(left_out)


def _line(key: ConfigKey) -> str:
    parts = (_takes(key), _default(key), _versions(key), _modes(key))
    return f"* `{key.name}`: {ENGLISH(key.meaning)} ({'; '.join(part for part in parts if part)})\n"


@pytest.mark.parametrize("section", dict.fromkeys(key.section for key in DUMP_KEYS))
def test_the_list_of_a_section_is_the_programs(section: str) -> None:
    lines = "".join(_line(key) for key in DUMP_KEYS if key.section == section)
    assert f"### `{section}`\n\n{lines}" in TEXT, f"dump_configurations.md should hold\n{lines}"


def test_the_list_of_acl_json_is_the_programs() -> None:
    lines = "".join(map(_line, ACL_KEYS)), "".join(map(_line, ACL_MODEL_KEYS))
    assert [part for part in lines if part not in TEXT] == []


def test_the_list_of_modes_is_the_programs() -> None:
    lines = "".join(f"* `{mode}`: {text}\n" for mode, text in MODES.items())
    assert lines in TEXT, f"dump_configurations.md should hold\n{lines}"
