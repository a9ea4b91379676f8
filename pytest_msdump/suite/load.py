"""A suite from its file, the command line, ini keys and defaults, in falling order of weight."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_msdump.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.facts.metrics import SHORT_FORMS
from pytest_msdump.judging.policy import Policy
from pytest_msdump.matching.align import Align
from pytest_msdump.matching.selection import Selection
from pytest_msdump.settings import OPTIONS
from pytest_msdump.storage.urls import located
from pytest_msdump.suite.sections import FileName, PlacedPath, SideText, read_file, read_options
from pytest_msdump.suite.values import ENV, SideChoice, Suite

__all__ = ["load_suite", "named_sides"]

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
    from pytest_msdump.suite.documents import called

    if file is None:
        return FileName("suite", "suite", "msdump")
    of_project = of_project or file.name == _PROJECT_FILE
    return FileName(called(file, directory), file.name, "tool.msdump" if of_project else "msdump")


def _table(file: Path, name: FileName) -> Mapping[str, Any]:
    """Read the file and return its one table."""
    from pytest_msdump.suite.documents import read_toml

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
        from pytest_msdump.suite.environment import dumped_path

        return _normal(dumped_path(environ, directory, written.where))
    return _normal(located(written.text, written.base, where=written.where))


def _normal(path: Path) -> Path:
    """Make a path absolute. Only the file system knows what ``..`` after a link means, so it is asked then."""
    return path.resolve() if ".." in path.parts else path.absolute()
