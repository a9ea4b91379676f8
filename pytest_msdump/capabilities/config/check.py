"""Checks a dump configuration: what MindSpore or CANN would refuse, and what would have no effect."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.config.keys import (
    ACL_KEYS,
    ACL_MODEL_KEYS,
    CATEGORIES,
    DEVICE_CATEGORIES,
    DUMP_KEYS,
    REFUSED,
    SUNK,
    WARNING,
    ConfigFinding,
    ConfigKey,
    Setting,
    kernel_findings,
    refused,
    warning,
)
from pytest_msdump.core.errors import ConfigError, nearest_name
from pytest_msdump.core.text import Message, Parameter, plain_text

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
        yield warning(f"{_COMMON}kernels", "config_kernels_empty")
    if values["dump_mode"] == 0 and kernels and not values["op_debug_mode"]:
        yield warning(f"{_COMMON}kernels", "config_kernels_idle")


def _set_dump(values: Values) -> Iterator[ConfigFinding]:
    if values["dump_mode"] != 2:
        return
    if values.setting.runs("cpu"):
        yield refused(f"{_COMMON}dump_mode", "config_set_dump_cpu")
    elif values.setting.runs("o0", "o1", *SUNK) and values["enable"]:
        yield refused(f"{_COMMON}dump_mode", "config_set_dump_async")
    if values["op_debug_mode"]:
        yield warning(f"{_COMMON}dump_mode", "config_set_dump_debug")


def _debug_mode(values: Values) -> Iterator[ConfigFinding]:
    mode, key = values["op_debug_mode"], f"{_COMMON}op_debug_mode"
    if not mode or values.setting.is_first:
        return
    if values.setting.runs("cpu", "gpu"):
        what = "config_parameters_only" if mode == 4 else "config_as_with_0"
        yield warning(key, "config_debug_cpu", debug=mode, mode=values.setting.mode, what=Message(what))
        return
    if mode in (1, 2) and values.setting.version >= (2, 1):
        yield warning(key, "config_debug_as_3", debug=mode)
    if mode == 4 and values.setting.runs("ge"):
        yield refused(key, "config_debug_4_ge")
    if values["dump_mode"]:
        yield warning(f"{_COMMON}dump_mode", "config_mode_as_0", debug=mode)
    if mode != 4 and values["input_output"]:
        yield warning(f"{_COMMON}input_output", "config_debug_3_both")
    if mode == 4 and values["input_output"] == 2:
        yield warning(f"{_COMMON}input_output", "config_debug_4_inputs")
    if values["iteration"] != "all" and (mode == 4 or values.setting.runs(*SUNK)):
        yield warning(f"{_COMMON}iteration", "config_debug_iterations", debug=mode)
    if values.wants_statistics:
        yield warning(f"{_COMMON}saved_data", "config_statistics_debug")


def _overflow_number(values: Values) -> Iterator[ConfigFinding]:
    key = f"{_COMMON}overflow_number"
    if "overflow_number" not in values:
        return
    if values["op_debug_mode"] not in (1, 2, 3):
        yield refused(key, "config_overflow_number")
    elif values.setting.runs(*SUNK) and values["file_format"] != "npy":
        yield refused(key, "config_overflow_number_npy", mode=values.setting.mode)


def _statistics(values: Values) -> Iterator[ConfigFinding]:
    if not values.wants_statistics:
        if values["stat_calc_mode"] == "device":
            yield warning(f"{_E2E}stat_calc_mode", "config_needs_statistics")
        if "statistic_category" in values:
            yield warning(f"{_COMMON}statistic_category", "config_category_idle")
        return
    named = values["statistic_category"]
    categories = named if isinstance(named, list | tuple) else ()
    strange = [one for one in categories if one not in CATEGORIES]
    if strange:
        yield refused(
            f"{_COMMON}statistic_category",
            "config_category_unknown",
            names=", ".join(map(repr, strange)),
            known=", ".join(CATEGORIES),
        )
    if values.setting.runs("cpu"):
        yield refused(f"{_COMMON}saved_data", "config_statistics_cpu")
    if values.setting.runs(*SUNK, "r1-async") and values["file_format"] != "npy":
        yield refused(f"{_COMMON}file_format", "config_statistics_npy", mode=values.setting.mode)
    if values["stat_calc_mode"] != "device":
        return
    if values.setting.runs(*SUNK, "gpu"):
        yield warning(f"{_E2E}stat_calc_mode", "config_statistics_host", mode=values.setting.mode)
    dropped = [one for one in categories if one not in DEVICE_CATEGORIES]
    if dropped:
        yield warning(f"{_COMMON}statistic_category", "config_not_of_device", names=", ".join(map(str, dropped)))


def _sample(values: Values) -> Iterator[ConfigFinding]:
    if values["sample_mode"] != 1:
        return
    if values["sample_num"] == 0:
        yield refused(f"{_E2E}sample_num", "config_sample_number")
    elif values.setting.runs(None, "o0", "o1") and values["op_debug_mode"]:
        yield warning(f"{_E2E}sample_mode", "config_sample_debug")
    elif values.setting.runs(None, "o0", "o1"):
        yield warning(f"{_E2E}sample_mode", "config_sample_most", number=values["sample_num"])


def _enable(values: Values) -> Iterator[ConfigFinding]:
    key, section, mode = f"{_E2E}enable", "e2e_dump_settings", values.setting.mode
    if values.setting.is_first:
        yield from _first_enable(values)
        return
    if values.setting.runs("cpu", "gpu") and values.e2e.get("enable") is False:
        yield warning(key, "config_enable_idle", mode=mode)
    for name, (other, wanted) in _NEEDS.items():
        if values[name] != _DEFAULTS[name] and values[other] != wanted and values.setting.runs(None, "o0", "o1"):
            yield warning(f"{_E2E}{name}", "config_counts_with", key=name, other=other, wanted=json.dumps(wanted))
    if values.setting.runs("cpu", "gpu", "o0", "o1"):
        if section not in values.sections:
            yield warning(section, "config_section_missing", section=section)
        elif "enable" not in values.e2e:
            what = "config_has_to_be_true" if values.setting.runs("cpu", "gpu") else "config_so_asynchronous"
            yield warning(key, "config_enable_unset", section=section, what=Message(what))
    if values.setting.runs(*SUNK) and section in values.sections:
        yield warning(section, "config_no_effect", key=section, mode=mode)
    yield from _other_dump(values, values["enable"] is True)


def _other_dump(values: Values, is_synchronous: bool) -> Iterator[ConfigFinding]:
    if values.setting.runs("r1-async" if is_synchronous else "r1-sync"):
        yield warning(f"{_E2E}enable", "config_only_synchronous" if is_synchronous else "config_only_asynchronous")


def _first_enable(values: Values) -> Iterator[ConfigFinding]:
    both = values.e2e.get("enable") is True, values.asynchronous.get("enable") is True
    if all(both):
        yield warning("async_dump_settings.enable", "config_both_dumps")
    elif not any(both):
        yield refused(f"{_E2E}enable", "config_neither_dump")
    elif both[1] and values.setting.runs("gpu"):
        yield refused(f"{_E2E}enable", "config_async_ascend")
    else:
        yield from _other_dump(values, both[0])
    if values.setting.runs("cpu"):
        yield refused("common_dump_settings", "config_first_cpu")
    if values.setting.runs("r1-sync", "gpu") and values["input_output"] != 2:
        yield warning(f"{_COMMON}input_output", "config_first_gpu")


def _script(values: Values) -> Iterator[ConfigFinding]:
    """Yield what the script has to do for the configuration to work."""
    if values.setting.runs(*SUNK):
        yield warning(f"{_COMMON}iteration", "config_sink_size", mode=values.setting.mode)
    if values.setting.runs("r1-async") and values.setting.is_first and values["iteration"] != 0:
        yield warning(f"{_COMMON}iteration", "config_no_sinking")
    if values.setting.runs("r1-sync", "gpu"):
        yield warning(f"{_COMMON}iteration", "config_sink_off")


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
    """Return all findings of a configuration, refusals first."""
    if not isinstance(document, Mapping):
        raise ConfigError("a dump configuration is a JSON object; this is not")
    if not {"dump", *_SECTIONS} & document.keys():
        raise ConfigError(
            "this is not a dump configuration: it has neither 'common_dump_settings' (MindSpore) nor 'dump' (acl.json)"
        )
    variables = os.environ if environ is None else environ
    if is_acl(document):
        found = list(check_acl(document, variables, names, model_names))
    else:
        found = list(check_dump(document, setting, variables, names))
        found += _idle(document, setting, {finding.key for finding in found})
    return sorted(found, key=lambda finding: finding.level != REFUSED)


def check_dump(
    document: Mapping[str, Any], setting: Setting, environ: Mapping[str, str], names: Sequence[str] | None
) -> Iterator[ConfigFinding]:
    """Yield the findings of a ``data_dump.json``; parameters as for `check_config`."""
    if not isinstance(document.get("common_dump_settings"), Mapping):
        yield refused("common_dump_settings", "config_is_missing", key="common_dump_settings")
        return
    for name, section in document.items():
        if name not in _SECTIONS:
            yield warning(name, "config_unknown_section", name=repr(name), nearest=nearest_name(name, _SECTIONS))
        elif not isinstance(section, Mapping):
            yield refused(name, "config_must_be", key=name, what=Message("config_object"))
        else:
            yield from _section_findings(section, name, DUMP_KEYS, setting)
    values = Values(document, setting)
    for rule in RULES:
        yield from rule(values)
    if isinstance(values["kernels"], list):
        yield from kernel_findings(values["kernels"], names, setting, counts=values["dump_mode"] == 1)
    if setting.is_first:
        if values.common.get("path") == "":
            yield refused(f"{_COMMON}path", "config_path_empty")
    elif not values["path"] and not environ.get(_DATA_PATH):
        yield refused(f"{_COMMON}path", "config_path_unset", variable=_DATA_PATH)


def _idle(document: Mapping[str, Any], setting: Setting, told: Container[str]) -> Iterator[ConfigFinding]:
    """Yield what has no effect in the mode: the least that can be said of a key, so only where nothing else is told."""
    sections = Values(document, setting).sections
    for key in (key for key in DUMP_KEYS if key.is_known(setting.version) and not counts(key, setting)):
        place, value = f"{key.section}.{key.name}", sections.get(key.section, {}).get(key.name, key.default)
        if place not in told and not _is_usual(key, value):
            yield warning(place, "config_no_effect", key=key.name, mode=setting.mode)


def counts(key: ConfigKey, setting: Setting) -> bool:
    """Whether a key has an effect in a mode; it is taken to have one where the mode is not known."""
    return setting.mode is None or setting.mode in key.modes


def check_acl(
    document: Mapping[str, Any],
    environ: Mapping[str, str],
    names: Sequence[str] | None,
    model_names: Sequence[str] = (),
) -> Iterator[ConfigFinding]:
    """Yield the findings of an ``acl.json``; parameters as for `check_config`."""
    dump = document["dump"]
    if not isinstance(dump, Mapping):
        yield refused("dump", "config_must_be", key="dump", what=Message("config_object"))
        return
    yield from _section_findings(dump, "dump", ACL_KEYS, Setting())
    models = dump.get("dump_list")
    debug = dump.get("dump_debug") == "on"
    if models is None and not debug and "dump_scene" not in dump:
        yield refused("dump.dump_list", "config_list_missing")
    listed = [one for one in models if isinstance(one, Mapping)] if isinstance(models, list) else []
    if debug and (listed or dump.get("dump_op_switch") == "on"):
        yield refused("dump.dump_debug", "config_debug_alone")
    elif listed and dump.get("dump_op_switch") == "on":
        yield warning("dump.dump_op_switch", "config_switch_list")
    elif models == [] and not debug and dump.get("dump_op_switch", "off") == "off":
        yield refused("dump.dump_list", "config_list_empty")
    if "dump_stats" in dump and dump.get("dump_data") != "stats":
        yield warning("dump.dump_stats", "config_stats_idle")
    yield from _model_findings(listed, names, model_names)
    yield from _path_findings(dump.get("dump_path"), environ)


def _model_findings(
    models: Sequence[Mapping[str, Any]], names: Sequence[str] | None, model_names: Sequence[str]
) -> Iterator[ConfigFinding]:
    counts = Counter(model.get("model_name") for model in models if isinstance(model.get("model_name"), str))
    for name, count in counts.items():
        if count > 1:
            yield refused("dump.dump_list", "config_model_twice", name=repr(name), n=count)
    meant = [name for name in dict.fromkeys(model_names) if name in counts]
    if len(meant) > 1:
        yield refused("dump.dump_list", "config_model_names", names=tuple(map(repr, meant)))
    for number, model in enumerate(models):
        place = f"dump.dump_list[{number}]"
        for key in model:
            if key not in (allowed := [one.name for one in ACL_MODEL_KEYS]):
                yield warning(place, "config_unknown_key", name=repr(key), nearest=nearest_name(str(key), allowed))
        layers = model.get("layer", [])
        if not isinstance(layers, list) or not all(isinstance(layer, str) for layer in layers):
            yield refused(place, "config_layer_names")
            continue
        if "layer" in model and not layers:
            yield warning(place, "config_layer_empty")
        is_meant = not model_names or model.get("model_name") is None or model.get("model_name") in model_names
        yield from _layer_findings(layers, place, names if is_meant else None)
    strangers = [name for name in counts if name not in model_names]
    if model_names and strangers and not meant:
        known = " or ".join(map(repr, dict.fromkeys(model_names)))
        listed = ", ".join(map(repr, strangers))
        yield warning("dump.dump_list", "config_model_called", known=known, names=listed)


def _layer_findings(layers: Sequence[object], place: str, names: Sequence[str] | None) -> Iterator[ConfigFinding]:
    for layer, count in Counter(map(str, layers)).items():
        if count > 1:
            yield warning(place, "config_layer_twice", name=repr(layer), n=count)
        if layer.rsplit("/", 1)[-1] == "Data":
            yield warning(place, "config_layer_data")
        elif names is not None and layer not in names:
            yield warning(place, "config_layer_unknown", name=repr(layer), nearest=nearest_name(layer, names))


def _path_findings(path: object, environ: Mapping[str, str]) -> Iterator[ConfigFinding]:
    if not isinstance(path, str):
        return
    unset = [name for name in _VARIABLE.findall(path) if name not in environ]
    if unset:
        yield warning("dump.dump_path", "config_path_variable", names=", ".join(unset), path=repr(path))
        return
    folder = Path(_VARIABLE.sub(lambda match: environ[match[1]], path))
    # False of a name that no folder can have, where `Path.is_dir` raises.
    if not os.path.isdir(folder):  # noqa: PTH112
        yield warning("dump.dump_path", "config_path_absent", path=str(folder))
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield warning("dump.dump_path", "config_path_closed", path=str(folder))


_STEPS = re.compile(r"[0-9|-]+")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_PATH = re.compile(r"[A-Za-z0-9/_-]+")
_MOST_STEP = 2**63 - 1
_MOST_SHOWN = 60


def _shown(value: object) -> Message:
    match value:
        case bool() | None:
            return plain_text(json.dumps(value))
        case str():
            return Message("config_shown_text", {"value": repr(value[:_MOST_SHOWN])})
        case int() | float():
            return Message("config_shown_number", {"value": str(value)[:_MOST_SHOWN]})
    return Message("config_array" if isinstance(value, list) else "config_object")


def _section_findings(
    section: Mapping[str, Any], name: str, keys: Iterable[ConfigKey], setting: Setting
) -> Iterator[ConfigFinding]:
    """Yield the findings of the section `name`; `keys` are those of all sections, in any version."""
    mine = [key for key in keys if key.section == name]
    now = {key.name: key for key in mine if key.is_known(setting.version)}
    for key in now.values():
        if key.required and key.name not in section:
            yield refused(f"{name}.{key.name}", "config_missing_key", key=key.name, meaning=Message(key.meaning))
    for said, value in section.items():
        key_now = now.get(said)
        if key_now is not None:
            yield from _value(key_now, value, setting)
        else:
            yield ConfigFinding(WARNING, f"{name}.{said}", unknown(said, mine, now, setting))


def unknown(said: str, mine: Iterable[ConfigKey], now: Mapping[str, ConfigKey], setting: Setting) -> Message:
    """Say why a key of a section is none of those that its release knows; `mine` are the section's of any release."""
    about: dict[str, Parameter] = {"key": said, "version": ".".join(map(str, setting.version))}
    for key in mine:
        if key.name == said:
            is_later = key.since > setting.version
            other = ".".join(map(str, key.since if is_later else key.until))
            return Message("config_known_since" if is_later else "config_known_before", {**about, "other": other})
    return Message("config_ignored_key", {"name": repr(said), "nearest": nearest_name(said, now)})


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


def _wrong(key: ConfigKey, value: object) -> Message | None:
    """Say why a value is not one that the key takes; ``None`` when it is."""
    about: dict[str, Parameter] = {"key": key.name, "here": _shown(value)}
    if key.kind == "steps" and isinstance(value, int):
        return Message("config_steps_text" if key.section == "dump" else "config_steps_text_since", about)
    takes, words = _KINDS[key.kind]
    if not takes(value):
        return Message("config_must_be_here", {**about, "what": Message(words)})
    if key.kind == "path":
        return _wrong_path(str(value))
    if key.kind == "name" and not _NAME.fullmatch(str(value)):
        return Message("config_name_letters", about)
    if key.kind == "steps" and value != "all" and not _STEPS.fullmatch(str(value)):
        return Message("config_steps_letters", about)
    return _wrong_choice(key, value)


def _wrong_choice(key: ConfigKey, value: object) -> Message | None:
    strange = [one for one in (value if isinstance(value, list) else [value]) if one not in key.choices]
    if not key.choices or not strange:
        return None
    known = ", ".join(map(str, key.choices))
    if 4 in key.choices:
        known = "0, 3, 4"
    return Message("config_knows", {"key": key.name, "known": known, "here": tuple(map(_shown, strange))})


def _wrong_path(path: str) -> Message | None:
    if path and not path.startswith("/"):
        return Message("config_path_absolute", {"path": repr(path[:_MOST_SHOWN])})
    if path and not _PATH.fullmatch(path):
        odd = "".join(sorted({letter for letter in path if not _PATH.fullmatch(letter)}))
        return Message("config_path_letters", {"odd": repr(odd[:_MOST_SHOWN])})
    return None


def _step_findings(text: str, place: str, setting: Setting) -> Iterator[ConfigFinding]:
    """Yield the parts of a choice of steps that silently match nothing."""
    if text == "all":
        return
    parts = text.split("|")
    dead = [part for part in parts if not _is_alive(part)]
    if len(dead) == len(parts):
        yield warning(place, "config_steps_dead", name=repr(text))
    elif dead:
        listed = ", ".join(repr(part) for part in dead)
        yield warning(place, "config_steps_partly_dead", names=listed, name=repr(text))
    if setting.is_first:
        yield warning(place, "config_steps_first")


def _is_alive(part: str) -> bool:
    match = _RANGE.fullmatch(part)
    if match is None or len(match[1]) > 19 or int(match[1]) > _MOST_STEP:
        return False
    return match[2] is None or (len(match[2]) < 20 and int(match[1]) <= int(match[2]))


def _number_findings(value: Any, place: str, setting: Setting) -> Iterator[ConfigFinding]:
    if setting.mode == "cpu":
        if 0 not in value:
            yield warning(place, "config_device_cpu")
        return
    if not value:
        yield warning(place, "config_device_none")
    for number in sorted({one for one in value if one < 0 or value.count(one) > 1}):
        yield warning(place, "config_device_bad" if number < 0 else "config_device_twice", number=number)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "uint": (lambda value: _is_number(value) and value >= 0, "config_uint"),
    "bool": (lambda value: isinstance(value, bool), "config_bool"),
    "text": (lambda value: isinstance(value, str), "config_text"),
    "texts": (lambda value: isinstance(value, list), "config_texts"),
    "numbers": (lambda value: isinstance(value, list) and all(map(_is_number, value)), "config_numbers"),
    "steps": (lambda value: isinstance(value, str), "config_text"),
    "path": (lambda value: isinstance(value, str), "config_text"),
    "name": (lambda value: isinstance(value, str), "config_text"),
    "models": (
        lambda value: isinstance(value, list) and all(isinstance(one, dict) for one in value),
        "config_objects",
    ),
}
