"""A suite: one gate, from the command line, the suite file, ini keys and defaults, in falling order of weight."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_msdump.core import ports
from pytest_msdump.core.errors import ConfigError, UnknownNameError, nearest
from pytest_msdump.core.facts.metrics import SHORT_FORMS
from pytest_msdump.core.limits.policy import Policy
from pytest_msdump.core.matching.coordinates import Align
from pytest_msdump.core.matching.selection import MapEntry, Selection
from pytest_msdump.core.model.tensor import COORDINATES
from pytest_msdump.core.settings.options import OPTIONS, option_words
from pytest_msdump.core.storage.locations import parse_location
from pytest_msdump.core.suite.documents import path_in_messages, read_json, read_toml
from pytest_msdump.core.suite.keys import FileName, PlacedPath, SideText, read_file, read_options

_PROJECT_FILE = "pyproject.toml"

_RULE_FILES = ("fusion", "quant_fusion", "close_fusion")
_DEFAULTS = {option.name: option.value for option in OPTIONS}

if TYPE_CHECKING:
    from pytest_msdump.capabilities.shards.model import Sharding

# Instead of a directory: where MindSpore's own configuration says that dumps go.
ENV = "@env"


class SideChoice(NamedTuple):
    """One side: its path, and which coordinates to take, ``None`` = all: `net` by name, others as ``"0|2-3"``.

    `dtype` and `shape` say what files without a header hold, by globs of operators; see ``runtime_files.raw``.
    """

    path: Path
    net: str | None = None
    rank: str | None = None
    graph: str | None = None
    iteration: str | None = None
    dtype: tuple[tuple[str, str], ...] = ()
    shape: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Suite:
    """One gate with everything resolved: command line over suite file over ini over defaults. Can be pickled."""

    name: str
    file: Path | None
    left: SideChoice
    right: SideChoice
    entries: tuple[MapEntry, ...]
    align: Align
    selection: Selection
    left_format: str | None
    right_format: str | None
    policy: Policy
    report_dir: Path
    graph_files: tuple[Path, ...]
    fusion: Path | None = None
    quant_fusion: Path | None = None
    close_fusion: Path | None = None
    golden: SideChoice | None = None
    third: SideChoice | None = None
    sharding: Sharding | None = None
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)
    typed: tuple[str, ...] = ()


class _Sources(NamedTuple):
    """The values that were read from each source, and the names of the suite file."""

    options: Mapping[str, Any]
    file: Mapping[str, Any]
    ini: Mapping[str, Any]
    name: FileName

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of the first source that has `key`. A spec "all" is ``None``, and yet a value."""
        for source in (self.options, self.file, self.ini, _DEFAULTS):
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
    """Return the suite of a suite file, a command line and an ini file."""
    directory = directory.absolute()
    file = None if file is None else directory / file
    file_name = _file_name(file, directory, of_project=table is not None)
    flags = {option.name: option.flags[0] for option in OPTIONS} | dict(spelled or {})
    ini_keys = {option.name: f"ini key {option.ini}" for option in OPTIONS if option.ini}
    ini_values = {key: value for key, value in (ini or {}).items() if value not in ("", [])}
    if table is None and file is not None:
        table = _table(file, file_name)
    sources = _Sources(
        options=read_options(options, flags, directory),
        file={} if table is None else read_file(table, file_name, directory if file is None else file.parent),
        ini=read_options(ini_values, ini_keys, directory if rootdir is None else directory / rootdir),
        name=file_name,
    )
    environment = os.environ if environ is None else environ
    align = Align()
    # For each coordinate the arrows of the last source that has any.
    for source in (sources.ini, sources.file, sources.options):
        align = align.updated(source.get("align", align))
    report_dir = sources.get("report_dir")
    rule_files: dict[str, Any] = {key: _normal(placed.path) for key in _RULE_FILES if (placed := sources.get(key))}
    suite = Suite(
        name=name or (file_name.short if file else "command line"),
        file=file,
        left=_side(sources, "left", directory, environment),
        right=_side(sources, "right", directory, environment),
        golden=_side(sources, "golden", directory, environment) if sources.get("golden") else None,
        third=_side(sources, "third", directory, environment) if sources.get("third") else None,
        sharding=_sharding(sources),
        entries=sources.get("map", ()),
        align=align,
        selection=Selection(
            **{key: sources.get(key) for key in ("select", "deselect", "io", "iteration", "rank", "graph")}
        ),
        left_format=sources.get("left_format"),
        right_format=sources.get("right_format"),
        policy=_policy(sources, flags["threshold"]),
        report_dir=_normal(report_dir.path if report_dir else directory / "msdump-report"),
        graph_files=tuple(_normal(path) for path in sources.get("graph_files", ())),
        options={option.name: sources.get(option.name) for option in OPTIONS} | _cache(sources, environment),
        **rule_files,
    )
    # Arrows of one coordinate leave those of others.
    outside = {name: value for name, value in ini_values.items() if name not in sources.file or name == "align"}
    outside |= {name: value for name, value in options.items() if value is not None}
    return replace(suite, typed=tuple(_typed(suite, outside, sources)))


def _typed(suite: Suite, outside: Mapping[str, Any], sources: _Sources) -> list[str]:
    """Return the options of ``msdump compare`` for values that are not the suite file's, from wherever it is started.

    `outside` are texts of flags and ini keys. Paths are absolute; of coordinates that meet, flags replace each other.
    """
    # Both sides of a suite without a file come first, without a flag; items of pytest are no matter of the command.
    dumps = ("golden", "third") if suite.file is None else ("left", "right", "golden", "third")
    values = {name: value for name, value in outside.items() if name not in ("left", "right", "config", "granularity")}
    values |= {name: getattr(suite, name).path for name in dumps if name in outside}
    values |= {name: getattr(suite, name) for name in _RULE_FILES if name in outside}
    values |= {name: suite.options[name] for name in ("replay",) if name in outside}
    if "limits" in outside:
        values["limits"] = _normal(sources.get("limits").path)
    if "align" in outside:
        values["align"] = [
            f"{name}={left}->{right}" for name in COORDINATES for left, right in getattr(suite.align, name, ())
        ]
    return option_words(values, for_pytest=False)


def named_sides(values: Mapping[str, Any], base: Path) -> list[Path]:
    """Return the directories of all dumps; a value that names none is left for `load_suite` to refuse."""
    found: list[Path] = []
    for side in ("left", "right", "golden", "third"):
        with suppress(ConfigError):
            read: dict[str, SideText] = read_options({side: values.get(side)}, {side: side}, base)
            found += [_directory(one.path, base, os.environ) for one in read.values()]
    return found


def _file_name(file: Path | None, directory: Path, *, of_project: bool) -> FileName:
    """Return the names of the file and its tables in messages."""
    if file is None:
        return FileName("suite", "suite", "msdump")
    of_project = of_project or file.name == _PROJECT_FILE
    return FileName(path_in_messages(file, directory), file.name, "tool.msdump" if of_project else "msdump")


def _table(file: Path, name: FileName) -> Mapping[str, Any]:
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


def _sharding(sources: _Sources) -> Sharding | None:
    """Return how the sides are cut over ranks; ``None`` where neither is."""
    shards, dims = sources.get("shards"), sources.get("dims", ())
    if dims and not shards:
        raise ConfigError(
            f"{sources.name.place('dims', 1)}: needs {sources.name.label('shards').split()[-1]}, which says how many "
            "ranks a side has; write e.g. left = { axes = { tp = 2 } } there"
        )
    if not shards:
        return None
    meshes = {side: mesh for side, mesh in shards.items() if side != "tokens"}
    sharding: Sharding = ports.offered("shards").Sharding(meshes, dims, shards.get("tokens"))
    return sharding


def _cache(sources: _Sources, environ: Mapping[str, str]) -> dict[str, str]:
    """Switch the cache off in a CI job, which may find another job's files, unless the command line asks for it."""
    return {"cache": "off"} if environ.get("CI") and "cache" not in sources.options else {}


def _policy(sources: _Sources, threshold_flag: str) -> Policy:
    """Make the policy; of two thresholds for one metric, in either spelling, the later holds."""
    placed: PlacedPath | None = sources.get("limits")
    thresholds = {SHORT_FORMS.get(text, text): (text, bound) for text, bound in sources.get("threshold")}
    nan = sources.get("nan")
    return Policy(
        profile=sources.get("profile"),
        limits=None if placed is None else ports.offered("limits_file").read_limits(_normal(placed.path)),
        rules=sources.get("rule", ()),
        known_drift=sources.get("known_drift", ()),
        thresholds=dict(thresholds.values()),
        nan=nan or "match",
        dtype_hint=sources.get("dtype_hint", False),
        nan_rule=f'{sources.name.label()} nan = "{nan}"' if nan else "",
        without=sources.get("without"),
        has_golden=bool(sources.get("golden") or sources.get("third")),
        threshold_flag=threshold_flag,
        accept_looser=sources.get("accept_looser"),
    )


def _side(sources: _Sources, side: str, directory: Path, environ: Mapping[str, str]) -> SideChoice:
    """Resolve one side. A directory on the command line replaces the file's, but not the coordinates it takes."""
    chosen: SideText | None = sources.get(side)
    if chosen is None:
        place = sources.name.place() if sources.name.file != "suite" else "a suite file msdump.toml"
        raise ConfigError(
            f"there is no {side} side; give --msdump-left and --msdump-right, or "
            f"write left = … and right = … into {place}"
        )
    in_file: SideText | None = sources.file.get(side)
    coordinates = dict((in_file or chosen).choice)
    if side == "left":
        # Flags of coordinates select on the left side, in place of the file.
        coordinates = {key: value for key, value in coordinates.items() if key not in sources.options}
    return SideChoice(_directory(chosen.path, directory, environ), **coordinates)


def _directory(written: PlacedPath, directory: Path, environ: Mapping[str, str]) -> Path:
    """Return the absolute path, or URL, of a side."""
    if written.text == ENV:
        return _normal(dumped_path(environ, directory, written.where))
    return _normal(parse_location(written.text, written.base, where=written.where))


def _normal(path: Path) -> Path:
    """Make a path absolute. What ``..`` means after a link depends on the file system, so it is resolved there."""
    return path.resolve() if ".." in path.parts else path.absolute()


_CONFIG = "MINDSPORE_DUMP_CONFIG"
_DATA = "MS_DIAGNOSTIC_DATA_PATH"


def dumped_path(environ: Mapping[str, str], directory: Path, where: str) -> Path:
    """Return the directory that the JSON file named by ``MINDSPORE_DUMP_CONFIG`` makes MindSpore dump to."""
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
