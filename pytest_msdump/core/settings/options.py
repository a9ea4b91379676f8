"""Every option, declared once: its pytest flag, ini key, key of the suite file and flag of the ``msdump`` command.

Values stay text until `suite.load_suite` reads them, each by the reader that `suite.keys` has for its name, or else for
its `kind`. Its value is then in `Suite.options`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pytest_msdump.core.errors import ConfigError, UnknownNameError
from pytest_msdump.core.facts.profiles import LEAST_REPLAYED, PROFILES
from pytest_msdump.core.ports import placed, rows
from pytest_msdump.core.registry import entry_points_of
from pytest_msdump.core.text.message import LANGUAGES

REPORT_KINDS = tuple(rows("REPORTS"))
# Headings of the help, in its order.
GROUPS = ("inputs", "selection", "pairing", "limits", "running", "output")
# Failing tensors that --msdump-detail without a number writes element by element.
USUAL_DETAILS = 5


# By name: the clause of an option whose row has no `help`.
_HELP: Mapping[str, str] = {
    "allow_incomplete": "accept a recording that did not finish, with a warning",
    "left": "dump of the run under test, also a URL such as s3://bucket/dump; '@env': where MINDSPORE_DUMP_CONFIG "
    "dumps to (with =, as in --msdump-left=@env)",
    "right": "dump of the reference; a URL or '@env' as for the left side",
    "fusion": "fusion-mapping JSON: the compiled model of the left side, as atc --mode=1 writes it",
    "quant_fusion": "quantisation rules of AMCT (JSON): what quantisation made of the original model",
    "close_fusion": "fusion-mapping JSON of the right side, compiled with fusion off",
    "config": "suite file",
    "profile": f"named limits: {', '.join(PROFILES)}",
    "limits": "limits file of msdump calibrate, which holds in place of the profile for the tensors that it has",
    "accept_looser": "let limits of the limits file hold that are more than 10 times looser than the profile default",
    "threshold": "limit of one metric for every tensor, e.g. cosine=0.999; repeatable",
    "without": "metric to leave out, e.g. kl_divergence, which costs an extra pass; repeatable",
    "select": "operators to compare; repeatable",
    "deselect": "operators to leave out; repeatable",
    "io": "tensors to compare: output, input or all",
    "pair_by": "ways of pairing: map, fusion, name, mangled, scope (modules of one path), graph; repeatable",
    "exclude_types": "types of operators that pass their input on, as Identity does, and do not count in coverage "
    "without a partner; repeatable",
    "align": "left rank, net, graph or iteration to pair with which right one, e.g. 'iteration=9->0' (in quotes: > is "
    "the shell's); repeatable",
    "iteration": "iterations, e.g. 0|2-3, or all",
    "rank": "ranks, e.g. 0|2-3, or all",
    "graph": "graphs, e.g. 0|2-3, or all",
    "granularity": "one item per op or per tensor",
    "allow_uncompared": "outputs of the model itself that need not be compared",
    "min_coverage": "fail if less of the right side is compared, 0 to 100 per cent",
    "min_replayed": "fail if a replay judges less of the operators that it can, 0 to 100 per cent",
    "replay": "judge each operator by itself as well: run FILE, whose FUNCTION returns the PyTorch or Keras model that "
    "the right side was recorded of, and give each of its modules the left's own inputs; of a MODEL.onnx its nodes",
    "report_dir": "where reports are written",
    "spread": "keep the distribution of errors, which the page draws: none, failing or all tensors",
    "jobs": "number of workers that compare pairs",
    "report": f"reports to write: {', '.join(REPORT_KINDS)}",
    "generate": "make every reference of msdump_reference again, and list them",
    "calibrate": "record each reference of msdump_reference again, and runs that show what rounding does to it; write "
    "its limits file and skip the test; gates are left out",
    "reference_dir": "where msdump_reference keeps references",
    "reference_save": "whether msdump_reference keeps whole tensors, or sketches, which are small enough to commit",
    "show": "failures on the terminal: causes in full and the next on a line each, a line for every one that is "
    "failing, or all in full",
    "bundle": "write tensors, inputs, limits and the command of each cause into DIR",
    "suggest": "read the tensors without a partner, and add likely partners to the reports",
    "limits_update": "after a run that passes, lower the limits of the limits file to what was measured: tighten",
    "lang": "language of the terminal: en, zh, or auto, as the locale says",
}


class Option(NamedTuple):
    """One option and the four ways to write it; `read` names what makes its value of the path that was written."""

    name: str
    flags: tuple[str, ...]
    kind: str
    help: str
    metavar: str
    default: str | None = None
    value: Any = None
    choices: tuple[str, ...] = ()
    ini: str | None = None
    toml: str | None = None
    cli_flags: tuple[str, ...] = ()
    group: str = "output"
    read: str | None = None

    @property
    def dest(self) -> str:
        """The attribute of a parsed command line that holds the value."""
        return f"msdump_{self.name}"

    @property
    def help_line(self) -> str:
        """The help with its default; argparse wants the percent signs doubled."""
        return f"{self.help} (default: {self.default})" if self.default else self.help


def _option(name: str, group: str, kind: str, metavar: str, **rest: Any) -> Option:
    """Return an option whose flags and keys follow from its name, except those in `rest`."""
    dashed = name.replace("_", "-")
    usual: dict[str, Any] = {"flags": (f"--msdump-{dashed}",), "cli_flags": (f"--{dashed}",)}
    usual |= {"help": _HELP.get(name), "ini": f"msdump_{name}", "toml": name}
    return Option(name=name, group=group, kind=kind, metavar=metavar, **(usual | rest))


def _output_option(name: str, kind: str, metavar: str, **rest: Any) -> Option:
    return _option(name, "output", kind, metavar, **({"ini": None, "toml": None} | rest))


# Also of commands that look at one dump.
ALLOW_INCOMPLETE = _option("allow_incomplete", "inputs", "switch", "", value=False)

_OF_THE_CORE = (
    _option("left", "inputs", "path", "DIR", flags=("--msdump-left", "--msdump-target"), cli_flags=("-l", "--left")),
    _option(
        "right", "inputs", "path", "DIR", flags=("--msdump-right", "--msdump-reference"), cli_flags=("-r", "--right")
    ),
    _option("fusion", "inputs", "path", "FILE", cli_flags=("-f", "--fusion")),
    _option("quant_fusion", "inputs", "path", "FILE", cli_flags=("-q", "--quant-fusion")),
    _option("close_fusion", "inputs", "path", "FILE"),
    _option(
        "config",
        "inputs",
        "path",
        "FILE",
        default="msdump.toml in rootdir, else [tool.msdump] of pyproject.toml",
        toml=None,
    ),
    _option("profile", "limits", "text", "NAME", default="default", value="default"),
    _option("limits", "limits", "path", "FILE", default="none"),
    _option("accept_looser", "limits", "switch", "", value=False),
    _option("threshold", "limits", "texts", "METRIC=VALUE", default="the profile's", value=(), toml=None),
    _option("without", "limits", "texts", "METRIC", default="none", value={}),
    _option("select", "selection", "texts", "GLOB", default="all", value=()),
    _option("deselect", "selection", "texts", "GLOB", default="none", value=()),
    _option("io", "selection", "choice", "IO", default="output", value="output", choices=("output", "input", "all")),
    _option("pair_by", "pairing", "texts", "WAY", default="all; without scope and graph where there are map entries"),
    _option("exclude_types", "pairing", "texts", "TYPE", default="none", value=()),
    _option("align", "pairing", "texts", "KEY=SPEC", default="same with same"),
    _option("iteration", "selection", "text", "SPEC", default="all"),
    _option("rank", "selection", "text", "SPEC", default="all"),
    _option("graph", "selection", "text", "SPEC", default="all"),
    _option("granularity", "selection", "choice", "UNIT", default="op", value="op", choices=("op", "tensor")),
    _option("allow_uncompared", "limits", "texts", "NAME", default="none", value=()),
    _option("min_coverage", "limits", "number", "PCT", default="50"),
    _option("min_replayed", "limits", "number", "PCT", default="50%", value=LEAST_REPLAYED),
    _option("replay", "inputs", "text", "FILE:FUNCTION", default="off", ini=None, toml=None),
    ALLOW_INCOMPLETE,
    _option("report_dir", "output", "path", "DIR", default="msdump-report"),
    _option("spread", "output", "choice", "WHICH", default="none", value="none", choices=("none", "failing", "all")),
    _option("jobs", "running", "number", "N", default="1", value=1),
    _option("report", "output", "text", "LIST", default="json", value=("json",)),
)


def _with_capabilities(core: Iterable[Option]) -> tuple[Option, ...]:
    """Put each option of a capability behind the one that it names as ``"after"``."""
    options, after = {option.name: option for option in core}, dict[str, str | None]()
    for name, row in rows("OPTIONS").items():
        options[name] = _option(name, **{key: value for key, value in row.items() if key != "after"})
        after[name] = row.get("after")
    return tuple(options[name] for name in placed(dict.fromkeys(options) | after))


OPTIONS = _with_capabilities(_OF_THE_CORE)


# Options of the fixtures; pytest alone has them.
FIXTURE_OPTIONS: tuple[Option, ...] = (
    _option("generate", "running", "switch", "", ini=None, toml=None, cli_flags=()),
    _option("calibrate", "limits", "switch", "", ini=None, toml=None, cli_flags=()),
    _option("reference_dir", "inputs", "path", "DIR", default="msdump-references in rootdir", toml=None, cli_flags=()),
    _option(
        "reference_save", "inputs", "choice", "HOW", default="full", choices=("full", "sketch"), toml=None, cli_flags=()
    ),
)

# Options of the output of a finished run: they change neither verdicts nor numbers, and no suite file has them.
OUTPUT_OPTIONS: tuple[Option, ...] = (
    _output_option("show", "choice", "WHICH", default="causes", choices=("causes", "failing", "all")),
    _output_option(
        "show",
        "word",
        "",
        help="every failure in full",
        value="all",
        flags=("--msdump-full", "--msdump-all"),
        cli_flags=("--full", "--all"),
    ),
    _output_option("bundle", "path", "DIR"),
    _output_option("suggest", "switch", ""),
    _output_option("limits_update", "choice", "HOW", choices=("tighten",)),
    _output_option("lang", "choice", "LANG", default="auto", choices=("en", "zh", "auto"), ini="msdump_lang"),
)


# The flag of each option in messages of the command.
COMMAND_FLAGS = {option.name: option.cli_flags[-1] for option in OPTIONS}


def option_values(namespace: object) -> dict[str, Any]:
    """Return name → value of every option in a namespace of argparse or pytest; ``None`` = not given."""
    return {option.name: getattr(namespace, option.dest, None) for option in OPTIONS}


# Options that decide what is compared, with what, and by which limits; the others are about running and writing.
DECIDING = frozenset(option.name for option in OPTIONS if option.group in ("inputs", "selection", "pairing", "limits"))


def option_words(values: Mapping[str, Any], *, for_pytest: bool) -> list[str]:
    """Return the words of a command line that gives these values again, of `DECIDING` options, ``None`` = not given."""
    return [
        flag if value is True else f"{flag}={value}"
        for option in OPTIONS
        if option.name in DECIDING and option.name != "select"
        for flag in [option.flags[0] if for_pytest else option.cli_flags[-1]]
        for given in [values.get(option.name)]
        for value in (given if isinstance(given, (list, tuple)) else [given])
        if value is not None and value is not False
    ]


def argparse_kwargs(option: Option) -> dict[str, Any]:
    """Return the keywords for ``parser.add_argument`` and ``group.addoption``; ``None`` is a value not given."""
    if option.kind == "switch":
        # A switch that a suite file may set as well is not off because its flag is missing.
        default = None if option.toml else False
        return {"dest": option.dest, "default": default, "help": option.help_line, "action": "store_true"}
    if option.kind == "word":
        return {
            "dest": option.dest,
            "default": None,
            "help": option.help,
            "action": "store_const",
            "const": option.value,
        }
    kwargs: dict[str, Any] = {
        "dest": option.dest,
        "metavar": option.metavar,
        "default": None,
        "help": option.help_line.replace("%", "%%"),
        "action": "append" if option.kind == "texts" else "store",
    }
    if option.kind == "count":
        kwargs |= {"nargs": "?", "const": str(USUAL_DETAILS)}
    if option.choices:
        kwargs["metavar"] = f"{{{','.join(option.choices)}}}"
    if option.kind == "choice":
        kwargs["choices"] = option.choices
    return kwargs


def ini_kwargs(option: Option) -> dict[str, Any]:
    """Return the arguments of ``parser.addini`` for an option that has an ini key."""
    if option.ini is None:
        raise ValueError(f"option {option.name} has no ini key")
    kind = {"texts": "linelist", "switch": "bool"}.get(option.kind, "string")
    return {"name": option.ini, "help": option.help_line, "type": kind, "default": None}


# POSIX: the first that is set, and not empty, decides.
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
# Text that Big5 and ASCII cannot write.
_SAMPLE = "张量转储"


def language_of(wanted: str | None, environ: Mapping[str, str], *, encoding: str | None = None) -> str:
    """Return ``"en"`` or ``"zh"``; ``"auto"`` is the locale's, and Chinese only where `encoding` can write it."""
    if wanted in LANGUAGES:
        return wanted
    if wanted not in (None, "", "auto"):
        raise ConfigError(f"msdump_lang: there is no language {wanted!r}; give en, zh or auto")
    locale = next((environ[name] for name in _VARIABLES if environ.get(name)), "")
    language = locale.replace("-", "_").partition(".")[0].partition("_")[0].lower()
    return "zh" if language == "zh" and _can_write(encoding) else "en"


def _can_write(encoding: str | None) -> bool:
    if encoding is None:
        return True
    try:
        _SAMPLE.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


# Readers of option values. Each refusal begins with `where`, the option as it is written there.

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_SPEC_PART = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)

# The set of a coordinate is in memory; no run has more iterations, and a typing mistake must not fill it.
_MOST_SPEC_VALUES = 1_000_000

# Each is a thread with a pair open; more than any machine has use for.
_MOST_JOBS = 256


def parse_spec(text: str, *, where: str = "SPEC") -> frozenset[int] | None:
    """Read iterations, ranks or graphs as MindSpore writes them: ``"all"`` (``None``), or numbers and ranges.

    Both ends of a range are included. MindSpore itself lets a bad part match nothing, in silence; here it is refused.

    >>> sorted(parse_spec("0|2-3"))
    [0, 2, 3]
    """
    if text == "all":
        return None
    found: set[int] = set()
    for part in text.split("|"):
        matched = _SPEC_PART.fullmatch(part)
        if matched is None:
            raise ConfigError(f"{where}: {text!r}: {part!r} is neither a number nor a range; write e.g. 0|2-3, or all")
        first, last = int(matched[1]), int(matched[2] or matched[1])
        if last < first:
            raise ConfigError(f"{where}: {text!r}: the range {part} runs backwards; write {last}-{first}")
        if len(found) + last - first >= _MOST_SPEC_VALUES:
            raise ConfigError(f"{where}: {text!r} names more than {_MOST_SPEC_VALUES:,} values; write all, or fewer")
        found.update(range(first, last + 1))
    return frozenset(found)


def parse_coverage(value: str | float, *, flag: bool, where: str | None = None) -> float:
    """Read the least coverage, per cent on the `flag` (or ini key) and a share in a suite file; return the share.

    ``"90%"`` means the same in either. A number that seems to be in the other unit is refused.

    >>> parse_coverage("90", flag=True), parse_coverage(0.9, flag=False), parse_coverage("90%", flag=False)
    (0.9, 0.9, 0.9)
    """
    where = where or ("--msdump-min-coverage" if flag else "min_coverage")
    if isinstance(value, str) and value.strip().endswith("%"):
        return _share(_coverage_number(value.strip()[:-1].rstrip(), value, where), value, where)
    if isinstance(value, str) and not flag:
        raise ConfigError(f'{where}: {value!r} is not a share; write 0.9, or "90%"')
    number = _coverage_number(value.strip() if isinstance(value, str) else value, value, where)
    if flag and 0 < number < 1:
        raise ConfigError(f"{where}: {value} is less than 1 per cent; write {number * 100:g} or {number:g}%")
    if not flag and number > 1:
        raise ConfigError(f'{where}: {number:g} is more than 1; write {number / 100:g} or "{number:g}%"')
    return _share(number if flag else number * 100, value, where)


def _coverage_number(number: str | float, value: object, where: str) -> float:
    if not isinstance(number, str):
        number = repr(float(number))
    return finite(number, f"{where}: {value!r} is not a number of per cent, e.g. 90")


def _share(per_cent: float, value: object, where: str) -> float:
    if not 0 <= per_cent <= 100:
        raise ConfigError(f"{where}: {value} is not within 0 to 100 per cent")
    return per_cent / 100


def parse_report(text: str | Iterable[str], *, where: str = "--msdump-report") -> tuple[str, ...]:
    """Read kinds of reports, separated by commas or one by one; return each once, in the order given."""
    parts = text.split(",") if isinstance(text, str) else list(text)
    kinds = [part.strip() for part in parts if part.strip()]
    if not kinds:
        raise ConfigError(f"{where}: names no report; known: {', '.join(REPORT_KINDS)}")
    for kind in kinds:
        # Looked up only for a kind that is not ours.
        if kind not in REPORT_KINDS and kind not in {point.name for point in entry_points_of("pytest_msdump.report")}:
            raise UnknownNameError(f"{where}: unknown report {kind!r}; known: {', '.join(REPORT_KINDS)}")
    return tuple(dict.fromkeys(kinds))


def parse_jobs(value: str | int, *, where: str = "--msdump-jobs") -> int:
    """Read a number of workers."""
    text = str(value).strip()
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= _MOST_JOBS:
        raise ConfigError(f"{where}: {value!r} is not a number of workers; write a number from 1 to {_MOST_JOBS}")
    return int(text)


def parse_count(value: str | int | bool, *, where: str = "--msdump-detail") -> int:
    """Read how many failing tensors to write in detail: a number, true for the usual one, or false for none.

    >>> parse_count("20"), parse_count(True), parse_count("false")
    (20, 5, 0)
    """
    named = {"true": USUAL_DETAILS, "false": 0}
    text = str(value).strip().lower()
    if text in named:
        return named[text]
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise ConfigError(
            f"{where}: {value!r} is not a number of failing tensors; before a path write {where}={USUAL_DETAILS}"
        )
    return int(text)


def finite(text: str, refusal: str) -> float:
    """Read a plain decimal number; refuse what only Python takes for one (`1_0`, `nan`, digits of other scripts)."""
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
        raise ConfigError(refusal)
    return number
