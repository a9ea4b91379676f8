"""A suite from its file, the command line, ini keys and defaults, in falling order of weight."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_msdump.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.facts.metrics import SHORT_FORMS
from pytest_msdump.limits.policy import Policy
from pytest_msdump.matching.coordinates import Align
from pytest_msdump.matching.selection import Selection
from pytest_msdump.settings import OPTIONS
from pytest_msdump.storage.files import read_user_file
from pytest_msdump.storage.remote import parse_location
from pytest_msdump.suite.keys import ENV, SideChoice, Suite
from pytest_msdump.suite.sections import FileName, PlacedPath, SideText, read_file, read_options

__all__ = ["called", "dumped_path", "load_suite", "named_sides", "read_json", "read_toml"]

_PROJECT_FILE = "pyproject.toml"

# What a flag says of coordinates is said of the left side, so it replaces what the file says of them there.
_COORDINATES = ("rank", "graph", "iteration")

_RULE_FILES = ("fusion", "quant_fusion", "close_fusion")


@dataclass(frozen=True, slots=True)
class _Said:
    """Everything that was said, each source apart; `name` is how the file is called."""

    options: Mapping[str, Any]
    file: Mapping[str, Any]
    ini: Mapping[str, Any]
    name: FileName

    def get(self, key: str, default: Any = None) -> Any:
        """Return the weightiest word on `key`. A spec may say "all", which is None and yet a word."""
        for source in (self.options, self.file, self.ini):
            if key in source:
                return source[key]
        return default


def load_suite(
    *,
    file: Path | None,
    table: Mapping[str, Any] | None = None,
    options: Mapping[str, Any],
    directory: Path,
    name: str | None = None,
    ini: Mapping[str, Any] | None = None,
    rootdir: Path | None = None,
    spelled: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Suite:
    """Bring together what a suite file, the command line and the ini file say.

    Parameters
    ----------
    file : Path, optional
        A suite file, or a pyproject.toml with ``[tool.msdump]``. Relative paths in it start from its folder.
    table : Mapping, optional
        The ``[tool.msdump]`` of a pyproject.toml that was read already; `file` is then only its place.
    options : Mapping
        Option name → what was typed, ``None`` where nothing was. Overrides the file.
    directory : Path
        What relative paths in `options` start from.
    name : str, optional
        How the suite is called; by default its file's name.
    ini : Mapping, optional
        Option name → the ini key's text; what the file says goes before it.
    rootdir : Path, optional
        What relative paths in `ini` start from; `directory` by default.
    spelled : Mapping, optional
        Option name → how it is written on this command line; pytest's flags by default.
    environ : Mapping, optional
        The environment for ``@env``; the process's own by default.

    Returns
    -------
    Suite
        With absolute paths. Nothing but the suite file, and for ``@env`` the dump configuration, has been opened.

    Raises
    ------
    ConfigError
        Anything that cannot be meant: one line that begins with its place.
    """
    directory = directory.absolute()
    file = None if file is None else directory / file
    file_name = _file_name(file, directory, of_project=table is not None)
    flags = {option.name: option.flags[0] for option in OPTIONS} | dict(spelled or {})
    ini_keys = {option.name: f"ini key {option.ini}" for option in OPTIONS if option.ini}
    ini_said = {key: value for key, value in (ini or {}).items() if value not in ("", [])}
    if table is None and file is not None:
        table = _table(file, file_name)
    said = _Said(
        options=read_options(options, flags, directory),
        file={} if table is None else read_file(table, file_name, directory if file is None else file.parent),
        ini=read_options(ini_said, ini_keys, directory if rootdir is None else directory / rootdir),
        name=file_name,
    )
    environment = os.environ if environ is None else environ
    return _assemble(said, file, directory, name, environment, threshold_flag=flags["threshold"])


def named_sides(values: Mapping[str, Any], base: Path, environ: Mapping[str, str] | None = None) -> list[Path]:
    """Return the directories that `left` and `right` of options or of a suite name, without looking at anything else.

    Parameters
    ----------
    values : Mapping
        Option name → text, or the table of a suite file.
    base : Path
        What relative paths start from.
    environ : Mapping, optional
        The environment for ``@env``; the process's own by default.

    Returns
    -------
    list of Path
        Without what names no directory; `load_suite` says what is wrong with it.
    """
    found: list[Path] = []
    for side in ("left", "right"):
        with suppress(ConfigError):
            read: dict[str, SideText] = read_options({side: values.get(side)}, {side: side}, base)
            found += [_directory(one.path, base, os.environ if environ is None else environ) for one in read.values()]
    return found


def _file_name(file: Path | None, directory: Path, *, of_project: bool) -> FileName:
    """Return how messages call the file and its tables."""
    if file is None:
        return FileName("suite", "suite", "msdump")
    of_project = of_project or file.name == _PROJECT_FILE
    return FileName(called(file, directory), file.name, "tool.msdump" if of_project else "msdump")


def _table(file: Path, name: FileName) -> Mapping[str, Any]:
    """Read the file and return its one table."""
    document = read_toml(file, name=name.file)
    if file.name == _PROJECT_FILE:
        tool = document.get("tool")
        found = tool.get("msdump") if isinstance(tool, Mapping) else None
        if found is None:
            raise ConfigError(f"{name.file}: has no table [tool.msdump]")
    else:
        for key in document:
            if key != "msdump":
                raise UnknownNameError(f"{name.file}: unknown table or key {key!r}; {nearest(key, ['msdump'])}")
        found = document.get("msdump", {})
    if not isinstance(found, Mapping):
        raise ConfigError(f"{name.place()} must be a table")
    return found


def _assemble(
    said: _Said,
    file: Path | None,
    directory: Path,
    name: str | None,
    environ: Mapping[str, str],
    *,
    threshold_flag: str,
) -> Suite:
    """Make the suite of what was said, and of defaults for the rest."""
    report_dir = said.get("report_dir")
    rule_files = {key: _normal(placed.path) for key in _RULE_FILES if (placed := said.get(key))}
    return Suite(
        name=name or (said.name.short if file else "command line"),
        file=file,
        left=_side(said, "left", directory, environ),
        right=_side(said, "right", directory, environ),
        entries=said.get("map", ()),
        align=_align(said),
        selection=Selection(
            select=said.get("select", ()),
            deselect=said.get("deselect", ()),
            io=said.get("io", "output"),
            iteration=said.get("iteration"),
            rank=said.get("rank"),
            graph=said.get("graph"),
        ),
        left_format=said.get("left_format"),
        right_format=said.get("right_format"),
        policy=_policy(said, threshold_flag),
        min_coverage=said.get("min_coverage"),
        granularity=said.get("granularity", "op"),
        report=said.get("report", ("json",)),
        detail=said.get("detail", 0),
        spread=said.get("spread", "none"),
        jobs=said.get("jobs", 1),
        cache=_cache(said, environ),
        allow_incomplete=said.get("allow_incomplete", False),
        report_dir=_normal(report_dir.path if report_dir else directory / "msdump-report"),
        graph_files=tuple(_normal(path) for path in said.get("graph_files", ())),
        options={option.name: found for option in OPTIONS if (found := said.get(option.name)) is not None},
        **rule_files,
    )


def _align(said: _Said) -> Align:
    """Bring the arrows together; for each coordinate the weightiest word alone holds."""
    align = Align()
    for source in (said.ini, said.file, said.options):
        align = align.updated(source.get("align", align))
    return align


def _cache(said: _Said, environ: Mapping[str, str]) -> str:
    """A job of CI starts from nothing, or from what others have left: there only who types it gets it."""
    cache: str = said.get("cache", "off")
    return cache if "cache" in said.options or not environ.get("CI") else "off"


def _policy(said: _Said, threshold_flag: str) -> Policy:
    """Make the policy; of two thresholds for one metric the later holds, whatever they are called."""
    thresholds: dict[str, tuple[str, float]] = {}
    for text, bound in said.get("threshold", ()):
        thresholds[SHORT_FORMS.get(text, text)] = (text, bound)
    nan = said.get("nan")
    return Policy(
        profile=said.get("profile", "default"),
        rules=said.get("rule", ()),
        known_drift=said.get("known_drift", ()),
        thresholds=dict(thresholds.values()),
        nan=nan or "match",
        dtype_hint=said.get("dtype_hint", False),
        nan_rule=f'{said.name.label()} nan = "{nan}"' if nan else "",
        without=said.get("without", {}),
        threshold_flag=threshold_flag,
    )


def _side(said: _Said, side: str, directory: Path, environ: Mapping[str, str]) -> SideChoice:
    """Resolve one side. A directory on the command line leaves standing which coordinates the file takes of it."""
    chosen: SideText | None = said.get(side)
    if chosen is None:
        place = f"write left = … and right = … into {said.name.place()}" if said.name.file != "suite" else ""
        raise ConfigError(
            f"there is no {side} side; give --msdump-left and --msdump-right, or "
            f"{place or 'write left = … and right = … into a suite file msdump.toml'}"
        )
    in_file: SideText | None = said.file.get(side)
    coordinates = dict((in_file or chosen).choice)
    if side == "left":
        coordinates = {key: value for key, value in coordinates.items() if key not in said.options}
    return SideChoice(_directory(chosen.path, directory, environ), **coordinates)


def _directory(written: PlacedPath, directory: Path, environ: Mapping[str, str]) -> Path:
    """Return the absolute path, or URL, of a side as it was written."""
    if written.text == ENV:
        return _normal(dumped_path(environ, directory, written.where))
    return _normal(parse_location(written.text, written.base, where=written.where))


def _normal(path: Path) -> Path:
    """Make a path absolute. Only the file system knows what ``..`` after a link means, so it is asked then."""
    return path.resolve() if ".." in path.parts else path.absolute()


# -- TOML and JSON files from disk -----------------------------------------------------------------------------------


# A suite file of this size would hold a hundred thousand map entries; beyond it, it is some other file.
_MOST_BYTES = 16 * 1024 * 1024

# A parser of TOML takes minutes for a key of some ten thousand parts; the deepest of ours has four. What is searched
# for begins where a part begins, so that every letter is looked at a bounded number of times.
_MOST_PARTS = 100
_DEEP_KEY = re.compile(rf"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{_MOST_PARTS}}}""", re.ASCII)
_TOML_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")


def called(path: Path, start: Path | None = None) -> str:
    """Return what messages call a file: its path from `start` (default: the working directory) when it is below."""
    start = Path.cwd() if start is None else start
    return path.relative_to(start).as_posix() if path.is_relative_to(start) else str(path)


def read_toml(path: Path, *, name: str | None = None) -> Mapping[str, Any]:
    """Read a TOML file.

    Parameters
    ----------
    path : Path
        UTF-8, with or without a byte-order mark.
    name : str, optional
        What messages call it; by default its path, from the working directory when it is below.

    Returns
    -------
    Mapping
        The document.

    Raises
    ------
    ConfigError
        If it is missing, no regular file, larger than 16 MiB, not UTF-8 or not TOML.
    """
    name = name or called(path)
    text = _read_text(path, name)
    deep = _DEEP_KEY.search(text)
    if deep:
        line = text.count("\n", 0, deep.start()) + 1
        raise ConfigError(f"{name} line {line}: a key of more than {_MOST_PARTS} parts; is it the right file?")
    try:
        # By name, since a type checker that is told of 3.10 would ask for tomli on every Python.
        toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
        document: Mapping[str, Any] = toml.loads(text)
    except RecursionError:
        raise ConfigError(f"{name}: arrays or tables are nested too deeply") from None
    except ValueError as error:
        # Not only TOMLDecodeError: an integer of too many digits, or a date that does not exist, is a bare ValueError.
        raise ConfigError(_toml_sentence(str(error), text, name)) from None
    return document


def _toml_sentence(message: str, text: str, name: str) -> str:
    """Move the place that tomllib puts last to the front, where editors look for it."""
    matched = _TOML_PLACE.search(message)
    if matched is None:
        return f"{name}: {' '.join(message.split())}"
    what = " ".join(message[: matched.start()].split())
    lines = text.split("\n")
    line, column = matched[1] or len(lines), matched[2] or len(lines[-1]) + 1
    return f"{name} line {line} column {column}: {what}"


def read_json(path: Path, *, name: str | None = None) -> Any:
    """Read a JSON file; parameters and refusals as of `read_toml`."""
    name = name or called(path)
    text = _read_text(path, name)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{name} line {error.lineno} column {error.colno}: {error.msg}") from None
    except (RecursionError, ValueError) as error:
        raise ConfigError(f"{name}: not JSON that can be read: {error}") from None


def _read_text(path: Path, name: str) -> str:
    raw = read_user_file(path, _MOST_BYTES, name=name, want="check which file was named")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        raise ConfigError(f"{name} line {line} column {column}: not UTF-8 (byte 0x{raw[error.start]:02x})") from None


# -- ``@env`` --------------------------------------------------------------------------------------------------------


_CONFIG = "MINDSPORE_DUMP_CONFIG"
_DATA = "MS_DIAGNOSTIC_DATA_PATH"


def dumped_path(environ: Mapping[str, str], directory: Path, where: str) -> Path:
    """Return where the JSON named by ``MINDSPORE_DUMP_CONFIG`` makes MindSpore dump to.

    Parameters
    ----------
    environ : Mapping
        The environment.
    directory : Path
        What a relative ``MINDSPORE_DUMP_CONFIG`` is relative to.
    where : str
        Who asked, for the messages.

    Returns
    -------
    Path
        ``common_dump_settings.path``, or ``$MS_DIAGNOSTIC_DATA_PATH/debug_dump`` where that is empty.

    Raises
    ------
    ConfigError
        If the variable is not set, its file is not such a configuration, or the path is not absolute (which MindSpore
        refuses as well).
    """
    named = environ.get(_CONFIG)
    if not named:
        raise ConfigError(
            f"{where}: {ENV} needs the variable {_CONFIG}, which is not set; set it, or name the directory"
        )
    file = directory / named
    settings = read_json(file, name=f"{where}: {ENV}: {file}")
    common = settings.get("common_dump_settings") if isinstance(settings, dict) else None
    if not isinstance(common, dict):
        raise ConfigError(f"{where}: {ENV}: {file} has no table 'common_dump_settings'; is it a dump configuration?")
    path = common.get("path", "")
    if not isinstance(path, str) or "\0" in path:
        raise ConfigError(f"{where}: {ENV}: {file}: common_dump_settings.path must be a text that can be a path")
    if path:
        return _absolute(path, f"{where}: {ENV}: {file}: common_dump_settings.path")
    if not environ.get(_DATA):
        raise ConfigError(f"{where}: {ENV}: {file} has no common_dump_settings.path, and {_DATA} is not set")
    return _absolute(environ[_DATA], f"{where}: {ENV}: {_DATA}") / "debug_dump"


def _absolute(path: str, where: str) -> Path:
    if not Path(path).is_absolute():
        raise ConfigError(f"{where} is {path!r}; MindSpore takes absolute paths only")
    return Path(path)
