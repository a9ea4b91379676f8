"""Checks a dump configuration: what MindSpore or CANN would refuse, and what would have no effect."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_msdump.configs.finding import REFUSED, WARNING, ConfigFinding, Setting, kernel_findings, refused, warning
from pytest_msdump.errors import ConfigError, nearest
from pytest_msdump.facts.config_keys import (
    ACL_KEYS,
    ACL_MODEL_KEYS,
    CATEGORIES,
    DEVICE_CATEGORIES,
    DUMP_KEYS,
    SUNK,
    ConfigKey,
)

_DEFAULTS = {key.name: key.default for key in DUMP_KEYS if key.section != "async_dump_settings"}
_NEEDS = {
    "sample_num": ("sample_mode", 1),
    "device_stat_precision_mode": ("stat_calc_mode", "device"),
    "save_kernel_args": ("enable", True),
}
_COMMON, _E2E = "common_dump_settings.", "e2e_dump_settings."


class Values:
    """The values of a configuration, with defaults; ``name in values`` is whether it sets one itself."""

    def __init__(self, document: Mapping[str, Any], setting: Setting) -> None:
        self.sections = {name: value for name, value in document.items() if isinstance(value, dict)}
        self.common = self.sections.get("common_dump_settings", {})
        self.e2e = self.sections.get("e2e_dump_settings", {})
        self.asynchronous = self.sections.get("async_dump_settings", {})
        self.setting = setting

    def __getitem__(self, name: str) -> Any:
        return self.common.get(name, self.e2e.get(name, _DEFAULTS.get(name)))

    def __contains__(self, name: str) -> bool:
        return name in self.common or name in self.e2e

    @property
    def wants_statistics(self) -> bool:
        """Whether statistics are asked for."""
        return self["saved_data"] in ("statistic", "full")


Rule = Callable[[Values], Iterator[ConfigFinding]]


def _kernels(values: Values) -> Iterator[ConfigFinding]:
    kernels = values["kernels"]
    if values["dump_mode"] == 1 and kernels == []:
        yield warning(f"{_COMMON}kernels", "kernels is empty, so dump_mode 1 dumps every operator")
    if values["dump_mode"] == 0 and kernels and not values["op_debug_mode"]:
        yield warning(f"{_COMMON}kernels", "kernels counts with dump_mode 1 only; dump_mode 0 dumps every operator")


def _set_dump(values: Values) -> Iterator[ConfigFinding]:
    if values["dump_mode"] != 2:
        return
    if values.setting.runs("cpu"):
        yield refused(f"{_COMMON}dump_mode", "dump_mode 2 (set_dump) is refused on CPU; use 0 or 1")
    elif values.setting.runs("o0", "o1", "o2") and values["enable"]:
        yield refused(f"{_COMMON}dump_mode", "dump_mode 2 (set_dump) needs the asynchronous dump: set enable to false")
    if values["op_debug_mode"]:
        yield warning(f"{_COMMON}dump_mode", "dump_mode 2 counts with op_debug_mode 0 only")


def _debug_mode(values: Values) -> Iterator[ConfigFinding]:
    mode, key = values["op_debug_mode"], f"{_COMMON}op_debug_mode"
    if not mode or values.setting.is_first:
        return
    if values.setting.runs("cpu", "gpu"):
        what = "only Parameter files are written" if mode == 4 else "every tensor is dumped as with 0"
        yield warning(key, f"op_debug_mode {mode} does not work on {values.setting.mode}: {what}")
        return
    if mode in (1, 2) and values.setting.version >= (2, 1):
        yield warning(key, f"op_debug_mode {mode} is taken for 3")
    if mode == 4 and values.setting.runs("ge"):
        yield refused(key, "op_debug_mode 4 is not there for the GE dump")
    if values["dump_mode"]:
        yield warning(f"{_COMMON}dump_mode", f"dump_mode counts as 0 with op_debug_mode {mode}")
    if mode != 4 and values["input_output"]:
        yield warning(f"{_COMMON}input_output", "op_debug_mode 3 saves inputs and outputs alike")
    if mode == 4 and values["input_output"] == 2:
        yield warning(f"{_COMMON}input_output", "op_debug_mode 4 saves inputs only")
    if values["iteration"] != "all" and (mode == 4 or values.setting.runs(*SUNK)):
        yield warning(f"{_COMMON}iteration", f"op_debug_mode {mode} looks at all iterations")
    if values.wants_statistics:
        yield warning(f"{_COMMON}saved_data", "statistics are saved with op_debug_mode 0 only")


def _overflow_number(values: Values) -> Iterator[ConfigFinding]:
    key = f"{_COMMON}overflow_number"
    if "overflow_number" not in values:
        return
    if values["op_debug_mode"] not in (1, 2, 3):
        yield refused(key, "overflow_number goes with op_debug_mode 3 only; leave it out")
    elif values.setting.runs(*SUNK) and values["file_format"] != "npy":
        yield refused(key, f"overflow_number counts with file_format npy only in mode {values.setting.mode}")


def _statistics(values: Values) -> Iterator[ConfigFinding]:
    if not values.wants_statistics:
        if values["stat_calc_mode"] == "device":
            yield warning(f"{_E2E}stat_calc_mode", "stat_calc_mode has no effect without statistics")
        if "statistic_category" in values:
            yield warning(f"{_COMMON}statistic_category", "statistic_category has no effect while saved_data is tensor")
        return
    strange = [one for one in values["statistic_category"] or () if one not in CATEGORIES]
    if strange:
        yield refused(
            f"{_COMMON}statistic_category",
            f"statistic_category knows no {', '.join(map(repr, strange))}; known: {', '.join(CATEGORIES)}",
        )
    if values.setting.runs("cpu"):
        yield refused(f"{_COMMON}saved_data", "statistics are refused on CPU; set saved_data to tensor")
    if values.setting.runs(*SUNK, "r1-async") and values["file_format"] != "npy":
        yield refused(
            f"{_COMMON}file_format", f"statistics need file_format npy in mode {values.setting.mode}, not bin"
        )
    if values["stat_calc_mode"] != "device":
        return
    if values.setting.runs(*SUNK, "gpu"):
        yield warning(f"{_E2E}stat_calc_mode", f"statistics are computed on the host in mode {values.setting.mode}")
    dropped = [one for one in values["statistic_category"] or () if one not in DEVICE_CATEGORIES]
    if dropped:
        yield warning(f"{_COMMON}statistic_category", f"{', '.join(map(str, dropped))} cannot be had from the device")


def _sample(values: Values) -> Iterator[ConfigFinding]:
    if values["sample_mode"] != 1:
        return
    if values["sample_num"] == 0:
        yield refused(f"{_E2E}sample_num", "sample_num must be 1 or more")
    elif not values.setting.runs(None, "o0", "o1"):
        return
    elif values["op_debug_mode"]:
        yield warning(f"{_E2E}sample_mode", "samples are taken with op_debug_mode 0 only")
    else:
        yield warning(
            f"{_E2E}sample_mode",
            f"at most {values['sample_num']} elements along the first axis of each tensor are saved",
        )


def _enable(values: Values) -> Iterator[ConfigFinding]:
    key, section, mode = f"{_E2E}enable", "e2e_dump_settings", values.setting.mode
    if values.setting.is_first:
        yield from _first_enable(values)
        return
    if values.setting.runs("cpu", "gpu") and values.e2e.get("enable") is False:
        yield warning(key, f"enable: false does not switch the dump off on {mode}")
    for name, (other, wanted) in _NEEDS.items():
        if values[name] != _DEFAULTS[name] and values[other] != wanted and values.setting.runs(None, "o0", "o1"):
            yield warning(f"{_E2E}{name}", f"{name} counts with {other}: {json.dumps(wanted)} only")
    if values.setting.runs("cpu", "gpu", "o0", "o1"):
        if section not in values.sections:
            yield warning(section, f"{section} is missing; MindSpore asks for it in this mode")
        elif "enable" not in values.e2e:
            what = "which has to be true" if values.setting.runs("cpu", "gpu") else "so the dump is asynchronous"
            yield warning(key, f"{section} does not set enable, {what}")
    if values.setting.runs(*SUNK) and section in values.sections:
        yield warning(section, f"{section} has no effect in mode {mode}")
    yield from _other_dump(values, values["enable"] is True)


def _other_dump(values: Values, is_synchronous: bool) -> Iterator[ConfigFinding]:
    kind, other = ("synchronous", "asynchronous") if is_synchronous else ("asynchronous", "synchronous")
    if values.setting.runs("r1-async" if is_synchronous else "r1-sync"):
        yield warning(f"{_E2E}enable", f"nothing is dumped {other}ly: only the {kind} dump is enabled")


def _first_enable(values: Values) -> Iterator[ConfigFinding]:
    both = values.e2e.get("enable") is True, values.asynchronous.get("enable") is True
    if all(both):
        yield warning("async_dump_settings.enable", "both dumps are enabled: the synchronous one alone takes place")
    elif not any(both):
        yield refused(f"{_E2E}enable", "neither dump is enabled, so nothing would be dumped")
    elif both[1] and values.setting.runs("gpu"):
        yield refused(f"{_E2E}enable", "the asynchronous dump is for Ascend only, so nothing would be dumped")
    else:
        yield from _other_dump(values, both[0])
    if values.setting.runs("cpu"):
        yield refused("common_dump_settings", "before 1.5 there is no dump on CPU")
    if values.setting.runs("r1-sync", "gpu") and values["input_output"] != 2:
        yield warning(f"{_COMMON}input_output", "before 1.5, GPU dumps outputs only")


def _script(values: Values) -> Iterator[ConfigFinding]:
    """Yield what the script has to do for the configuration to work."""
    if values.setting.runs(*SUNK):
        yield warning(f"{_COMMON}iteration", f"in mode {values.setting.mode} the sink size of the script must be 1")
    if values.setting.runs("r1-async") and values.setting.is_first and values["iteration"] != 0:
        yield warning(
            f"{_COMMON}iteration",
            "without data sinking iteration must be 0, and all steps are dumped into one directory; with it, this is "
            "the one step that is dumped",
        )
    if values.setting.runs("r1-sync", "gpu"):
        yield warning(f"{_COMMON}iteration", "the script must run with dataset_sink_mode=False")


RULES: tuple[Rule, ...] = (_kernels, _set_dump, _debug_mode, _overflow_number, _statistics, _sample, _enable, _script)

_SECTIONS = tuple(dict.fromkeys(key.section for key in DUMP_KEYS))
_DATA_PATH = "MS_DIAGNOSTIC_DATA_PATH"
_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")


def is_acl(document: object) -> bool:
    """Whether this is CANN's ``acl.json`` rather than MindSpore's ``data_dump.json``."""
    return isinstance(document, Mapping) and "dump" in document and "common_dump_settings" not in document


def check_config(
    document: object,
    setting: Setting,
    *,
    environ: Mapping[str, str] | None = None,
    names: Sequence[str] | None = None,
    model_names: Sequence[str] = (),
) -> list[ConfigFinding]:
    """Return all findings of a configuration, refusals first.

    `document` is the parsed JSON, of either kind; `environ` has the environment variables of the run, by default those
    of this process. Where a graph is given, `names` are the full names of its operators, and `model_names` what its
    model may be called in ``acl.json``: its file's name, and its own.
    """
    if not isinstance(document, Mapping):
        raise ConfigError("a dump configuration is a JSON object; this is not")
    if not {"dump", *_SECTIONS} & document.keys():
        raise ConfigError(
            "this is not a dump configuration: it has neither 'common_dump_settings' (MindSpore) nor 'dump' (acl.json)"
        )
    variables = os.environ if environ is None else environ
    if is_acl(document):
        found = check_acl(document, variables, names, model_names)
    else:
        found = check_dump(document, setting, variables, names)
    return sorted(found, key=lambda finding: finding.level != REFUSED)


def check_dump(
    document: Mapping[str, Any], setting: Setting, environ: Mapping[str, str], names: Sequence[str] | None
) -> Iterator[ConfigFinding]:
    """Yield the findings of a ``data_dump.json``; parameters as for `check_config`."""
    findings = list(_dump_findings(document, setting, environ, names))
    yield from findings
    # The least that can be said of a key: only where nothing else is.
    told, sections = {finding.key for finding in findings}, Values(document, setting).sections
    for key in (key for key in DUMP_KEYS if key.is_known(setting.version) and not counts(key, setting)):
        place, value = f"{key.section}.{key.name}", sections.get(key.section, {}).get(key.name, key.default)
        if place not in told and not _is_usual(key, value):
            yield warning(place, f"{key.name} has no effect in mode {setting.mode}")


def counts(key: ConfigKey, setting: Setting) -> bool:
    """Whether a key has an effect in a mode; it is taken to have one where the mode is not known."""
    return setting.mode is None or setting.mode in key.modes


def _dump_findings(
    document: Mapping[str, Any], setting: Setting, environ: Mapping[str, str], names: Sequence[str] | None
) -> Iterator[ConfigFinding]:
    if not isinstance(document.get("common_dump_settings"), Mapping):
        yield refused("common_dump_settings", "common_dump_settings is missing")
        return
    for name, section in document.items():
        if name not in _SECTIONS:
            yield warning(name, f"unknown section {name!r} is silently ignored; {nearest(name, _SECTIONS)}")
        elif not isinstance(section, Mapping):
            yield refused(name, f"{name} must be an object")
        else:
            yield from _section_findings(section, name, DUMP_KEYS, setting)
    values = Values(document, setting)
    for rule in RULES:
        yield from rule(values)
    if isinstance(values["kernels"], list):
        yield from kernel_findings(values["kernels"], names, setting, counts=values["dump_mode"] == 1)
    if setting.is_first:
        if values.common.get("path") == "":
            yield refused(f"{_COMMON}path", "path is empty: say where to dump to")
    elif not values["path"] and not environ.get(_DATA_PATH):
        yield refused(f"{_COMMON}path", f"path is empty, and {_DATA_PATH} is not set: say where to dump to")


def check_acl(
    document: Mapping[str, Any],
    environ: Mapping[str, str],
    names: Sequence[str] | None,
    model_names: Sequence[str] = (),
) -> Iterator[ConfigFinding]:
    """Yield the findings of an ``acl.json``; parameters as for `check_config`."""
    dump = document["dump"]
    if not isinstance(dump, Mapping):
        yield refused("dump", "dump must be an object")
        return
    yield from _section_findings(dump, "dump", ACL_KEYS, Setting())
    models = dump.get("dump_list")
    debug = dump.get("dump_debug") == "on"
    if models is None and not debug and "dump_scene" not in dump:
        yield refused("dump.dump_list", "dump_list is missing; [] for single operators")
    listed = [one for one in models if isinstance(one, Mapping)] if isinstance(models, list) else []
    if debug and (listed or dump.get("dump_op_switch") == "on"):
        yield refused("dump.dump_debug", "dump_debug: on cannot be combined with a dump of models or operators")
    elif listed and dump.get("dump_op_switch") == "on":
        yield warning("dump.dump_op_switch", "for single operators (dump_op_switch: on) dump_list should be empty")
    elif models == [] and not debug and dump.get("dump_op_switch", "off") == "off":
        yield refused("dump.dump_list", "dump_list is empty and dump_op_switch is off, so nothing would be dumped")
    if "dump_stats" in dump and dump.get("dump_data") != "stats":
        yield warning("dump.dump_stats", "dump_stats has no effect unless dump_data is stats")
    yield from _model_findings(listed, names, model_names)
    yield from _path_findings(dump.get("dump_path"), environ)


def _model_findings(
    models: Sequence[Mapping[str, Any]], names: Sequence[str] | None, model_names: Sequence[str]
) -> Iterator[ConfigFinding]:
    counts = Counter(model.get("model_name") for model in models if isinstance(model.get("model_name"), str))
    for name, count in counts.items():
        if count > 1:
            yield refused("dump.dump_list", f"model {name!r} is listed {count} times; list it once")
    meant = [name for name in dict.fromkeys(model_names) if name in counts]
    if len(meant) > 1:
        both = " and ".join(map(repr, meant))
        yield refused("dump.dump_list", f"{both} are two names of one model; name it once")
    for number, model in enumerate(models):
        place = f"dump.dump_list[{number}]"
        for key in model:
            if key not in (allowed := [one.name for one in ACL_MODEL_KEYS]):
                yield warning(place, f"unknown key {key!r}; {nearest(str(key), allowed)}")
        layers = model.get("layer", [])
        if not isinstance(layers, list) or not all(isinstance(layer, str) for layer in layers):
            yield refused(place, "layer must be an array of operator names")
            continue
        if "layer" in model and not layers:
            yield warning(place, "layer is empty; leave it out to dump all operators")
        is_meant = not model_names or model.get("model_name") is None or model.get("model_name") in model_names
        yield from _layer_findings(layers, place, names if is_meant else None)
    strangers = [name for name in counts if name not in model_names]
    if model_names and strangers and not meant:
        known = " or ".join(map(repr, dict.fromkeys(model_names)))
        listed = ", ".join(map(repr, strangers))
        yield warning("dump.dump_list", f"the model of the graph is called {known}, not {listed}")


def _layer_findings(layers: Sequence[object], place: str, names: Sequence[str] | None) -> Iterator[ConfigFinding]:
    for layer, count in Counter(map(str, layers)).items():
        if count > 1:
            yield warning(place, f"layer {layer!r} is listed {count} times")
        if layer.rsplit("/", 1)[-1] == "Data":
            yield warning(place, "Data runs on no core and is never dumped; name all operators that it feeds")
        elif names is not None and layer not in names:
            yield warning(place, f"layer {layer!r} matches no operator; {nearest(layer, names)}")


def _path_findings(path: object, environ: Mapping[str, str]) -> Iterator[ConfigFinding]:
    if not isinstance(path, str):
        return
    unset = [name for name in _VARIABLE.findall(path) if name not in environ]
    if unset:
        yield warning("dump.dump_path", f"{', '.join(unset)} is not set here, so {path!r} means nothing")
        return
    folder = Path(_VARIABLE.sub(lambda match: environ[match[1]], path))
    # False of a name that no folder can have, where `Path.is_dir` raises.
    if not os.path.isdir(folder):  # noqa: PTH112
        yield warning("dump.dump_path", f"{folder} does not exist; make it before the program starts")
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield warning("dump.dump_path", f"{folder} cannot be written to")


_STEPS = re.compile(r"[0-9|-]+")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_PATH = re.compile(r"[A-Za-z0-9/_-]+")
_MOST_STEP = 2**63 - 1
_MOST_SHOWN = 60


def _shown(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f"the text {value[:_MOST_SHOWN]!r}"
        case int() | float():
            return f"the number {str(value)[:_MOST_SHOWN]}"
        case list():
            return "an array"
        case dict():
            return "an object"
    return "null"


def _section_findings(
    section: Mapping[str, Any], name: str, keys: Iterable[ConfigKey], setting: Setting
) -> Iterator[ConfigFinding]:
    """Yield the findings of the section `name`; `keys` are those of all sections, in any version."""
    mine = [key for key in keys if key.section == name]
    now = {key.name: key for key in mine if key.is_known(setting.version)}
    for key in now.values():
        if key.required and key.name not in section:
            yield refused(f"{name}.{key.name}", f"{key.name} is missing: {key.meaning}")
    for said, value in section.items():
        key_now = now.get(said)
        if key_now is not None:
            yield from _value(key_now, value, setting)
        else:
            yield warning(f"{name}.{said}", unknown(said, mine, now, setting))


def unknown(said: str, mine: Iterable[ConfigKey], now: Mapping[str, ConfigKey], setting: Setting) -> str:
    """Say why a key of a section is none of those that its release knows; `mine` are the section's of any release."""
    version = ".".join(map(str, setting.version))
    for key in mine:
        if key.name == said and key.since > setting.version:
            return f"{said} is known since {'.'.join(map(str, key.since))}; {version} reads on without it"
        if key.name == said:
            return f"{said} was known before {'.'.join(map(str, key.until))}; {version} reads on without it"
    return f"unknown key {said!r} is silently ignored; {nearest(said, now)}"


def _value(key: ConfigKey, value: object, setting: Setting) -> Iterator[ConfigFinding]:
    place = f"{key.section}.{key.name}"
    wrong = _wrong(key, value)
    if wrong:
        # A value that is never looked at is not refused.
        unread = key.name in ("file_format", "statistic_category") and setting.mode not in key.modes
        harmless = key.kind == "texts" and isinstance(value, list)
        level = WARNING if unread or harmless or key.name == "statistic_category" else REFUSED
        yield ConfigFinding(level, place, wrong)
        return
    if key.kind == "steps":
        yield from _step_findings(str(value), place, setting)
    if key.kind == "numbers":
        yield from _number_findings(value, place, setting)


def _is_usual(key: ConfigKey, value: object) -> bool:
    """Whether a value asks only for what the mode does anyway."""
    return key.kind == "numbers" or value == key.default or (key.name, value) in (("enable", True), ("enable", False))


def _wrong(key: ConfigKey, value: object) -> str:
    """Say why a value is not one that the key takes; empty when it is."""
    here = f"here it is {_shown(value)}"
    if key.kind == "steps" and isinstance(value, int):
        since = "" if key.section == "dump" else " since 1.5"
        return f'{key.name} must be a string{since}, e.g. "0|5-8" or "all"; {here}'
    takes, words = _KINDS[key.kind]
    if not takes(value):
        return f"{key.name} must be {words}; {here}"
    if key.kind == "path":
        return _wrong_path(str(value))
    if key.kind == "name" and not _NAME.fullmatch(str(value)):
        return f"{key.name} may hold letters, digits, '-' and '_' only, and not be empty; {here}"
    if key.kind == "steps" and value != "all" and not _STEPS.fullmatch(str(value)):
        return f"{key.name} may hold digits, '-' and '|' only, or be \"all\"; {here}"
    return _wrong_choice(key, value)


def _wrong_choice(key: ConfigKey, value: object) -> str:
    strange = [one for one in (value if isinstance(value, list) else [value]) if one not in key.choices]
    if not key.choices or not strange:
        return ""
    known = ", ".join(map(str, key.choices))
    if 4 in key.choices:
        known = "0, 3, 4"
    return f"{key.name} knows {known}; here it is {', '.join(map(_shown, strange))}"


def _wrong_path(path: str) -> str:
    if path and not path.startswith("/"):
        return f"path must be absolute, so begin with '/'; here it is {path[:_MOST_SHOWN]!r}"
    if path and not _PATH.fullmatch(path):
        odd = "".join(sorted({letter for letter in path if not _PATH.fullmatch(letter)}))
        return f"path may hold letters, digits, '-', '_' and '/' only; here it has {odd[:_MOST_SHOWN]!r}"
    return ""


def _step_findings(text: str, place: str, setting: Setting) -> Iterator[ConfigFinding]:
    """Yield the parts of a choice of steps that silently match nothing."""
    if text == "all":
        return
    parts = text.split("|")
    dead = [part for part in parts if not _is_alive(part)]
    if len(dead) == len(parts):
        yield warning(place, f"{text!r} is accepted and matches no iteration, so nothing would be dumped")
    elif dead:
        listed = ", ".join(repr(part) for part in dead)
        yield warning(place, f"{listed} in {text!r} is accepted and matches no iteration")
    if setting.is_first:
        yield warning(place, "before 1.5 iteration is a number")


def _is_alive(part: str) -> bool:
    match = _RANGE.fullmatch(part)
    if match is None or len(match[1]) > 19 or int(match[1]) > _MOST_STEP:
        return False
    return match[2] is None or (len(match[2]) < 20 and int(match[1]) <= int(match[2]))


def _number_findings(value: Any, place: str, setting: Setting) -> Iterator[ConfigFinding]:
    if setting.mode == "cpu":
        if 0 not in value:
            yield warning(place, "support_device has no effect on CPU: it dumps although 0 is not in it")
        return
    if not value:
        yield warning(place, "support_device is empty, so no device dumps")
    for number in sorted({one for one in value if one < 0 or value.count(one) > 1}):
        yield warning(place, f"device {number} is " + ("no device" if number < 0 else "there twice"))


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "uint": (lambda value: _is_number(value) and value >= 0, "a whole number, 0 or more"),
    "bool": (lambda value: isinstance(value, bool), "true or false, without quotes"),
    "text": (lambda value: isinstance(value, str), "a text"),
    "texts": (lambda value: isinstance(value, list), "an array of texts"),
    "numbers": (lambda value: isinstance(value, list) and all(map(_is_number, value)), "an array of whole numbers"),
    "steps": (lambda value: isinstance(value, str), "a text"),
    "path": (lambda value: isinstance(value, str), "a text"),
    "name": (lambda value: isinstance(value, str), "a text"),
    "models": (
        lambda value: isinstance(value, list) and all(isinstance(one, dict) for one in value),
        "an array of objects",
    ),
}
