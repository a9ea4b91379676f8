"""The reference tables of the documentation, written out of the program's own tables while the site is built.

A page asks for one by a comment line, ``<!-- table: NAME -->``. The paragraph below it is what a reader sees where
nothing is built, as on GitHub; on the site the table takes its place.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from pytest_msdump import cli
from pytest_msdump.capabilities.causes.text import SENTENCES as OF_CAUSES
from pytest_msdump.capabilities.config.keys import ACL_KEYS, ACL_MODEL_KEYS, DUMP_KEYS, MODES, ConfigKey
from pytest_msdump.capabilities.diagnosis.text import DIAGNOSES
from pytest_msdump.capabilities.inspect.check_facts import CHECKS
from pytest_msdump.capabilities.shards.text import SENTENCES as OF_SHARDS
from pytest_msdump.capabilities.statistics.text import SENTENCES as OF_STATISTICS
from pytest_msdump.capabilities.training.text import SENTENCES as OF_TRAINING
from pytest_msdump.cli import compare
from pytest_msdump.cli.output import add_common
from pytest_msdump.core import errors
from pytest_msdump.core.facts.dtypes import ALIASES, DTYPES
from pytest_msdump.core.facts.metrics import METRICS
from pytest_msdump.core.facts.profiles import PROFILES
from pytest_msdump.core.forms import Form
from pytest_msdump.core.report.json_report import FORM
from pytest_msdump.core.settings.options import FIXTURE_OPTIONS, OPTIONS, OUTPUT_OPTIONS, Option
from pytest_msdump.core.suite import read_toml
from pytest_msdump.core.text import ENGLISH
from pytest_msdump.core.text.findings import FINDINGS
from pytest_msdump.core.text.phrases import catalogue
from pytest_msdump.core.text.unmatched import UNMATCHED
from pytest_msdump.plugin.hooks import MARKERS

EN, ZH = catalogue("en"), catalogue("zh")
_CAUSES = [*OF_CAUSES[0], *OF_TRAINING[0]]
_FINDINGS = [*FINDINGS[0], *OF_STATISTICS[0], *OF_SHARDS[0]]

__all__ = ["expand", "meaning_of", "meanings", "result_keys"]

_ASKED = re.compile(r"^<!-- table: (.+) -->\n(?:.+\n)*", re.MULTILINE)
_NONE = "–"


def expand(page: str, language: str = "en") -> str:
    """Return the text of a page with its tables in the place of the comments that ask for them.

    Raises
    ------
    KeyError
        There is no table of that name.
    """

    def table(asked: re.Match[str]) -> str:
        translated = TRANSLATED.get(asked[1])
        return TABLES[asked[1]]() if translated is None else translated(language)

    return _ASKED.sub(table, page)


# -- Markdown ----------------------------------------------------------------------------------------------------------


def _table(titles: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [titles, tuple("---" for _ in titles), *rows]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)


def _code(text: str | None) -> str:
    return f"`{text}`" if text else _NONE


def _plain(text: str) -> str:
    """Return text without what Markdown would take for its own signs."""
    return re.sub(r"([\\*_<>\[\]`#])", r"\\\1", text)


# -- options -----------------------------------------------------------------------------------------------------------


def _options(options: Iterable[Option]) -> str:
    """The options of one group, in two columns: what an option means can be read without scrolling, also on a phone."""
    rows = []
    for one in options:
        places = {"ini key": one.ini, "suite file": one.toml}
        elsewhere = [f"default: {_plain(one.default)}"] if one.default else []
        elsewhere += [f"{place} {_code(name)}" for place, name in places.items() if name]
        elsewhere += [f"`msdump compare` {', '.join(map(_code, flags))}"] if (flags := _known(one.cli_flags)) else []
        flags = "<br>".join(_code(f"{flag}={one.metavar}".rstrip("=")) for flag in one.flags)
        rows.append((flags, f"{_plain(one.help)}<br>{' · '.join(elsewhere)}"))
    return _table(("pytest", "meaning, default, and where else it is set"), rows)


def _compare_actions() -> list[argparse.Action]:
    parser = argparse.ArgumentParser(add_help=False)
    compare.add_arguments(parser)
    add_common(parser)
    return parser._actions


def _known(flags: Iterable[str]) -> list[str]:
    """Those of the flags that `msdump compare` has."""
    known = {flag for action in _compare_actions() for flag in action.option_strings}
    return [flag for flag in flags if flag in known]


def _compare_flags() -> str:
    """The flags of `msdump compare` that no suite file and no pytest option stands for."""
    declared = {flag for option in (*OPTIONS, *OUTPUT_OPTIONS) for flag in option.cli_flags}
    rows = [
        (
            ", ".join(_code(f"{flag} {action.metavar or ''}".strip()) for flag in action.option_strings),
            _plain(action.help or ""),
        )
        for action in _compare_actions()
        if action.option_strings and declared.isdisjoint(action.option_strings)
    ]
    return _table(("flag", "meaning"), rows)


def _command_flags(name: str) -> str:
    """What `--help` of a command prints of its arguments, but for those that every command has."""
    common = argparse.ArgumentParser(add_help=False)
    add_common(common)
    left_out = {flag for action in common._actions for flag in action.option_strings} | {"--help"}
    rows = []
    for action in cli._parser([name])._subparsers._group_actions[0].choices[name]._actions:  # type: ignore[union-attr]
        if left_out.isdisjoint(action.option_strings):
            takes = f" {action.metavar}" if action.metavar and action.option_strings else ""
            spelled = action.option_strings or [str(action.metavar)]
            meaning = _plain((action.help or "") % vars(action))
            rows.append((", ".join(_code(f"{flag}{takes}") for flag in spelled), meaning))
    return _table(("argument", "meaning"), rows)


def _vendor_flags(tool: str) -> str:
    """The flags of a vendor's command line."""
    flags = import_module(f"pytest_msdump.capabilities.compat.{tool}").GRAMMAR.flags
    rows = (
        (", ".join(_code(f"{name} {flag.metavar}".strip()) for name in flag.names), _plain(flag.help)) for flag in flags
    )
    return _table(("flag", "meaning"), rows)


# -- dump configurations, data types, checks ---------------------------------------------------------------------------

_CONFIGURED = {
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


def _json(value: object) -> str:
    return f'`"{value}"`' if isinstance(value, str) else f"`{str(value).lower()}`"


def _configuration(keys: Iterable[ConfigKey]) -> str:
    return "".join(map(_configuration_key, keys))


def _configuration_key(key: ConfigKey) -> str:
    """A line on a key: what it takes, its default, and the releases and modes in which it counts."""
    choices = ", ".join(map(_json, key.choices))
    takes = f"{_CONFIGURED[key.kind]} of {choices}" if choices and key.kind == "texts" else choices
    default = ", ".join(map(_json, key.default)) if isinstance(key.default, tuple) else _json(key.default)
    since = "" if key.since == (1, 2) else "since " + ".".join(map(str, key.since))
    until = "" if key.until == (99,) else "before " + ".".join(map(str, key.until))
    named, others = ([f"`{mode}`" for mode in MODES if (mode in key.modes) == counts] for counts in (True, False))
    modes = f"only {', '.join(named)}" if len(named) <= len(others) + 1 else f"all but {', '.join(others)}"
    parts = (
        takes or _CONFIGURED[key.kind],
        "**needed**" if key.required else f"default {default}" if key.default is not None else "",
        f"{since} {until}".strip(),
        modes if others else "",
    )
    return f"* `{key.name}`: {ENGLISH(key.meaning)} ({'; '.join(filter(None, parts))})\n"


def _dtypes() -> str:
    lines = []
    for name, fact in DTYPES.items():
        aliases = ", ".join(_code(alias) for alias, target in ALIASES.items() if target == name)
        saturated = f", saturated at {fact.maximum:.6g}" if fact.maximum and fact.native else ""
        computed = _code(fact.native) if fact.native else "not read"
        if fact.kind != "opaque":
            lines.append(f"* `{name}`{f' (also {aliases})' if aliases else ''}: {computed}{saturated}\n")
    opaque = ", ".join(_code(name) for name, fact in DTYPES.items() if fact.kind == "opaque")
    return "".join([*lines, f"\nTexts and handles cannot be compared: {opaque}.\n"])


def _checks() -> str:
    rows = []
    for name, fact in CHECKS.items():
        limits = (f"`{key}` {_NONE if value is None else f'{value:g}'}" for key, value in fact.parameters.items())
        rows.append((_code(name), ENGLISH(f"check_{name}"), ", ".join(limits)))
    return _table(("check", "hits when", "thresholds"), rows)


# -- metrics, profiles, diagnoses --------------------------------------------------------------------------------------


def _metrics() -> str:
    words = {"high": "at least", "low": "at most", "none": _NONE}
    rows = [
        (_code(name), _code(fact.short), words[fact.direction], f"{fact.least:g} … {fact.most:g}".replace("inf", "∞"),
         _code(fact.vendor_title))
        for name, fact in METRICS.items()
    ]  # fmt: skip
    return _table(("metric", "short form", "limit", "range", "vendor's column"), rows)


def _profile(name: str) -> str:
    fact = PROFILES[name]
    metrics = list(dict.fromkeys(metric for row in fact.rows.values() for metric in row))
    titles = [f"{_code(metric)} {'≥' if METRICS[metric].direction == 'high' else '≤'}" for metric in metrics]
    rows = [
        (_code(kind), *(f"{bounds[metric]:g}" if metric in bounds else _NONE for metric in metrics))
        for kind, bounds in fact.rows.items()
    ]
    return f"{_code(name)}, version {fact.version}:\n\n" + _table(("data type", *titles), rows)


def _diagnoses() -> str:
    rows = [
        (_code(name), EN[f"looks_{name}"], fact.sentence, ", ".join(map(_code, sorted(fact.within))) or _NONE)
        for name, fact in DIAGNOSES.items()
    ]
    return _table(("`id`", "shown as", "meaning", "more specific than"), rows)


# -- sentences ---------------------------------------------------------------------------------------------------------


def _sentences(codes: Iterable[str], language: str) -> str:
    """Codes and their templates; of two templates the one of several is shown."""

    def shown(template: str | tuple[str, str]) -> str:
        return _plain(re.sub(r"{(\w+):\w+}", r"{\1}", template if isinstance(template, str) else template[-1])).strip()

    if language.startswith("zh"):
        rows = [(_code(code), shown(ZH[code]), shown(EN[code])) for code in codes]
        return _table(("代码", "中文", "英文"), rows)
    return _table(("code", "sentence"), [(_code(code), shown(EN[code])) for code in codes])


_ERRORS_IN_CHINESE = {
    "error": "本软件包所有错误的基类；文字只有一行，写明该怎么做",
    "configuration": "比对配置文件、选项或标记无法使用。退出码 4",
    "unknown-name": "指标、阈值方案、键或算子不存在；文字给出最相近的已知名称。退出码 4",
    "dump-not-found": "dump 目录或文件不存在。退出码 4",
    "unknown-dump-format": "目录中有文件，但没有读取器能识别。退出码 4",
    "incomplete-recording": "对模型的采集尚未结束，或已中断。退出码 4",
    "program": "本应落盘的程序运行失败、没有结束或没有落盘任何数据；文字末尾是其输出",
    "tensor-file": "张量文件与其自身的描述不符；该张量的结论为 `error`",
    "not-replayable": "算子的某次调用无法重新计算；只计数并列出，从不算作通过",
    "tensor-shape": "两个张量的形状无法对齐；这一对的结论为 `error`",
}


def _errors(language: str) -> str:
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.MsdumpError)]
    chinese = language.startswith("zh")
    rows = []
    for kind in kinds:
        builtin = [base for base in kind.__mro__ if base.__module__ == "builtins"]
        nearest = [base for base in builtin if not any(issubclass(one, base) for one in builtin if one is not base)]
        comma, last = ("、", "、") if chinese else (", ", " and ")
        name = f"{_code(kind.__name__)}{comma}{last.join(_code(base.__name__) for base in nearest)}"
        meaning = _ERRORS_IN_CHINESE[kind.slug] if chinese else str(kind.__doc__).partition("\n")[0]
        rows.append((f"[`{kind.slug}`](#{kind.slug})", name, meaning))
    return _table(("消息", "Python 异常", "含义") if chinese else ("message", "in Python", "meaning"), rows)


def _exit_codes() -> str:
    return _table(("code", "means"), [(str(code), text) for code, text in cli.EXIT_CODES.items()])


# -- results.json ------------------------------------------------------------------------------------------------------


def meanings() -> dict[str, str]:
    """What each key of results.json means, by its path, or by the end of it where several share the meaning."""
    return dict(read_toml(Path(__file__).parent / "results_keys.toml"))


def result_keys(form: Form = FORM, above: str = "") -> Iterator[tuple[str, Form]]:
    """Walk the keys of results.json: the path of each one, and its form."""
    for key, value in form.keys.items():
        yield f"{above}{key}", value
        yield from result_keys(value, f"{above}{key}.")


def meaning_of(path: str) -> str:
    """Return the name that the meaning of a key has in `meanings`: the longest end of its path that is there."""
    known = meanings()
    parts = path.split(".")
    return next(name for start in range(len(parts)) if (name := ".".join(parts[start:])) in known)


def _results(first: str) -> str:
    """The keys at or below one key of the top level, or of the top level itself."""
    known = meanings()
    rows = []
    for path, form in result_keys():
        top, _, rest = path.partition(".")
        if first == "top" and not rest:
            rows.append((_code(path), "yes" if form.required else _NONE, known[meaning_of(path)]))
        elif top == first and rest:
            rows.append((_code(rest), "yes" if form.required else _NONE, known[meaning_of(path)]))
    return _table(("key", "required", "value"), rows)


# -- names of Python ---------------------------------------------------------------------------------------------------


def _api(module: str) -> str:
    """Directives that print the docstrings of the public classes and functions of a module."""
    home = import_module(module)
    lines = []
    for name in home.__all__:
        value = getattr(home, name)
        if isinstance(value, type):
            kind = "exception" if issubclass(value, Exception) else "class"
            # Of a tuple its members are fields, which its own docstring explains.
            options = "" if issubclass(value, (Exception, tuple)) else "\n   :members:"
            lines.append(f".. auto{kind}:: {module}.{name}{options}")
        elif inspect.isroutine(value):
            lines.append(f".. autofunction:: {module}.{name}")
    return "```{eval-rst}\n" + "\n\n".join(lines) + "\n```\n"


def _fixtures() -> str:
    plugin = import_module("pytest_msdump.plugin.fixtures")
    rows = [(_code(name), _docstring(getattr(plugin, name))) for name in plugin.__all__]
    return _table(("fixture", "is"), rows)


def _docstring(fixture: Any) -> str:
    # A fixture wraps its function.
    text = str(getattr(fixture, "__wrapped__", fixture).__doc__).partition("\n")[0]
    return text.replace("``", "`")


def _markers() -> str:
    rows = []
    for marker in MARKERS:
        call, _, text = marker.partition("): ")
        rows.append((_code(f"@pytest.mark.{call})"), text))
    return _table(("marker", "says"), rows)


_MODULES = (
    "pytest_msdump",
    "pytest_msdump.record",
    "pytest_msdump.core.model.record",
    "pytest_msdump.core.model.comparison",
    "pytest_msdump.core.errors",
    "pytest_msdump.testing.conformance",
)


def _documents() -> str:
    folder = Path(compare.__file__).parent / "schemas"
    titles = {file.name: json.loads(file.read_text("utf-8"))["title"] for file in sorted(folder.glob("*.json"))}
    rows = ((f"[{_code(name)}](../../pytest_msdump/cli/schemas/{name})", title) for name, title in titles.items())
    return _table(("schema", "of"), rows)


# By name, the function that returns the table as Markdown.
TABLES: Mapping[str, Callable[[], str]] = {
    "options": partial(_options, OPTIONS),
    "fixture options": partial(_options, FIXTURE_OPTIONS),
    "output options": partial(_options, OUTPUT_OPTIONS),
    "compare flags": _compare_flags,
    **{f"command {name}": partial(_command_flags, name) for name in cli.COMMANDS},
    **{
        f"configuration {section}": partial(_configuration, [key for key in DUMP_KEYS if key.section == section])
        for section in dict.fromkeys(key.section for key in DUMP_KEYS)
    },
    **{f"vendor {tool}": partial(_vendor_flags, tool) for tool in ("compare_vector", "msaccucmp")},
    "configuration acl": partial(_configuration, ACL_KEYS),
    "configuration acl model": partial(_configuration, ACL_MODEL_KEYS),
    "data types": _dtypes,
    "checks": _checks,
    "metrics": _metrics,
    **{f"profile {name}": partial(_profile, name) for name in PROFILES},
    "diagnoses": _diagnoses,
    "exit codes": _exit_codes,
    "documents": _documents,
    "results": partial(_results, "top"),
    **{f"results {key}": partial(_results, key) for key, form in FORM.keys.items() if form.keys},
    "fixtures": _fixtures,
    "markers": _markers,
    **{f"api {module}": partial(_api, module) for module in _MODULES},
}
# By name, those in the language of the page.
TRANSLATED: Mapping[str, Callable[[str], str]] = {
    "errors": _errors,
    "findings": partial(_sentences, _FINDINGS),
    "causes": partial(_sentences, _CAUSES),
    "reasons": partial(_sentences, UNMATCHED[0]),
    "sentences": partial(
        _sentences, [code for code in EN if not any(code in rows for rows in (_FINDINGS, _CAUSES, UNMATCHED[0]))]
    ),
}
