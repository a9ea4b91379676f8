"""Every key of MindSpore's ``data_dump.json`` and of Ascend's ``acl.json``: what it takes, since when, and where.

References: MindSpore "Dump" documentation, releases 1.2, 1.3, 1.5, 2.0 and later 2.x; answers of MindSpore 2.10 on CPU
to each. CANN "acl.json" dump configuration, `aclInit`. Where no document says since when a key is known, it is 2.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.kernel_lists import OF_FULL_NAMES, REGEX, chosen
from pytest_msdump.core.text import Message, Parameter, say

# How a network runs, the values of --mode, and their meaning.
MODES = {
    "cpu": "CPU",
    "gpu": "GPU",
    "o0": "Ascend, jit_level O0",
    "o1": "Ascend, jit_level O1",
    "o2": "Ascend, jit_level O2 (whole graph sunk)",
    "ge": "Ascend, jit_level O2 with ENABLE_MS_GE_DUMP=1",
    "r1-sync": "MindSpore 1.x, synchronous dump",
    "r1-async": "MindSpore 1.x, asynchronous dump (Ascend)",
}

_FIRST = (1, 2)
_LAST = (99,)
_EVERYWHERE = frozenset(MODES)
# Whole graphs on the device: one kind of configuration.
SUNK = ("o2", "ge")
_ASCEND = frozenset({"o0", "o1", *SUNK})

Version = tuple[int, ...]


class ConfigKey(NamedTuple):
    """One key."""

    section: str
    name: str
    kind: str
    meaning: str
    required: bool = False
    default: object = None
    choices: tuple[object, ...] = ()
    since: Version = _FIRST
    until: Version = _LAST
    modes: frozenset[str] = _EVERYWHERE

    def is_known(self, version: Version) -> bool:
        """Whether a release knows the key, with this meaning."""
        return self.since <= version < self.until


_COMMON, _E2E, _ASYNC = "common_dump_settings", "e2e_dump_settings", "async_dump_settings"

CATEGORIES = (
    *("max", "min", "avg", "count", "negative zero count", "positive zero count", "nan count", "negative inf count"),
    *("positive inf count", "zero count", "l2norm", "md5", "hash", "hash:md5", "hash:sha1"),
)
DEVICE_CATEGORIES = ("max", "min", "avg", "l2norm")

_common = partial(ConfigKey, _COMMON)
_e2e = partial(ConfigKey, _E2E)
_trans_flag = partial(
    _e2e, "trans_flag", "bool", "config_key_trans_flag", modes=frozenset({"gpu", "o0", "o1", "r1-sync"})
)
_required = partial(_common, required=True)
# Keys that count where a graph runs kernel by kernel.
_by_kernel = partial(_e2e, since=(2, 3), modes=frozenset({"o0", "o1"}))
_old_async = partial(ConfigKey, _ASYNC, until=(1, 5), modes=frozenset({"r1-async"}))
_OLD_CHECK = _old_async("op_debug_mode", "uint", "config_key_op_debug_mode_first", default=0, choices=(0, 1, 2, 3))

DUMP_KEYS: tuple[ConfigKey, ...] = (
    _required("dump_mode", "uint", "config_key_dump_mode_first", choices=(0, 1), until=(1, 6)),
    _required("dump_mode", "uint", "config_key_dump_mode", choices=(0, 1, 2), since=(1, 6)),
    _required("path", "path", "config_key_path_first", until=(1, 5)),
    _common("path", "path", "config_key_path", default="", since=(1, 5)),
    _required("net_name", "name", "config_key_net_name"),
    _required("iteration", "uint", "config_key_iteration_first", until=(1, 5)),
    _required("iteration", "steps", "config_key_iteration", since=(1, 5)),
    _required("input_output", "uint", "config_key_input_output", choices=(0, 1, 2)),
    _required("kernels", "texts", "config_key_kernels_first", until=(1, 6)),
    _required("kernels", "texts", "config_key_kernels", since=(1, 6)),
    _required("support_device", "numbers", "config_key_support_device", modes=_EVERYWHERE - {"cpu"}),
    _OLD_CHECK._replace(section=_COMMON, since=(1, 5), until=(2, 1), modes=_ASCEND | {"r1-async"}),
    _common(
        "op_debug_mode",
        "uint",
        "config_key_op_debug_mode",
        default=0,
        choices=(0, 1, 2, 3, 4),
        since=(2, 1),
        modes=_ASCEND,
    ),
    _common(
        "saved_data",
        "text",
        "config_key_saved_data",
        default="tensor",
        choices=("tensor", "statistic", "full"),
        since=(1, 6),
    ),
    _common(
        "statistic_category",
        "texts",
        "config_key_statistic_category",
        default=("max", "min", "l2norm"),
        choices=CATEGORIES,
        since=(2, 3),
    ),
    _common(
        "file_format",
        "text",
        "config_key_file_format",
        default="bin",
        choices=("npy", "bin"),
        since=(1, 6),
        modes=frozenset({*SUNK, "r1-async"}),
    ),
    _common("overflow_number", "uint", "config_key_overflow_number", default=0, since=(2, 0), modes=_ASCEND),
    _common("initial_iteration", "uint", "config_key_initial_iteration", default=0, since=(2, 0)),
    _e2e("enable", "bool", "config_key_enable", modes=_EVERYWHERE - {*SUNK}),
    _trans_flag(required=True, until=(2, 0)),
    _trans_flag(default=True, since=(2, 0)),
    _by_kernel("stat_calc_mode", "text", "config_key_stat_calc_mode", default="host", choices=("host", "device")),
    _by_kernel(
        "device_stat_precision_mode", "text", "config_key_stat_precision", default="high", choices=("high", "low")
    ),
    _by_kernel("sample_mode", "uint", "config_key_sample_mode", default=0, choices=(0, 1)),
    _by_kernel("sample_num", "uint", "config_key_sample_num", default=100),
    _by_kernel("save_kernel_args", "bool", "config_key_save_kernel_args", default=False),
    _old_async("enable", "bool", "config_key_async_enable"),
    _OLD_CHECK,
)

_ACL_STATISTICS = ("Max", "Min", "Avg", "Nan", "Negative Inf", "Positive Inf", "L2norm")

_acl = partial(ConfigKey, "dump")
_acl_model = partial(ConfigKey, "dump.dump_list")

ACL_KEYS: tuple[ConfigKey, ...] = (
    _acl("dump_path", "text", "config_key_dump_path", required=True),
    _acl("dump_list", "models", "config_key_dump_list"),
    _acl("dump_mode", "text", "config_key_acl_dump_mode", default="output", choices=("input", "output", "all")),
    _acl("dump_level", "text", "config_key_dump_level", choices=("op", "kernel", "all")),
    _acl("dump_op_switch", "text", "config_key_dump_op_switch", default="off", choices=("on", "off")),
    _acl("dump_step", "steps", "config_key_dump_step"),
    _acl("dump_data", "text", "config_key_dump_data", default="tensor", choices=("tensor", "stats")),
    _acl("dump_stats", "texts", "config_key_dump_stats", default=_ACL_STATISTICS[:-1], choices=_ACL_STATISTICS),
    _acl("dump_debug", "text", "config_key_dump_debug", default="off", choices=("on", "off")),
    _acl("dump_scene", "text", "config_key_dump_scene"),
)
ACL_MODEL_KEYS: tuple[ConfigKey, ...] = (
    _acl_model("model_name", "text", "config_key_model_name"),
    _acl_model("layer", "texts", "config_key_layer"),
)

REFUSED, WARNING = "refused", "warning"


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """One sentence about one key; `level` is ``"refused"`` (the run would stop) or ``"warning"``."""

    level: str
    key: str
    message: Message

    @property
    def sentence(self) -> str:
        """The sentence in English."""
        return say(self.message)


def refused(place: str, code: str, /, **parameters: Parameter) -> ConfigFinding:
    """Return a finding that stops the run."""
    return ConfigFinding(REFUSED, place, Message(code, parameters))


def warning(place: str, code: str, /, **parameters: Parameter) -> ConfigFinding:
    """Return a finding that does not stop the run."""
    return ConfigFinding(WARNING, place, Message(code, parameters))


@dataclass(frozen=True, slots=True)
class Setting:
    """The version of MindSpore that a configuration is for, and how the network runs; ``None`` for any mode."""

    version: tuple[int, ...] = (2, 10)
    mode: str | None = None

    @property
    def is_first(self) -> bool:
        """Whether it is a release before 1.5, where iterations were numbers."""
        return self.version < (1, 5)

    def runs(self, *modes: str | None) -> bool:
        """Whether the mode is known to be one of these; with ``None``, also whether it is not known."""
        return self.mode in modes


def setting_of(mode: str | None, version: str | None = None) -> Setting:
    """Return the setting of a mode and a version, by default 1.5 for modes of 1.x and else 2.10."""
    number = version or ("1.5" if mode and mode.startswith("r1") else "2.10")
    return Setting(parse_version(number), checked_mode(mode))


def parse_version(text: str) -> tuple[int, ...]:
    """Return a version such as ``2.10`` or ``r1.5`` as numbers; others are refused."""
    fields = text.strip().lower().removeprefix("r").removeprefix("v").split(".")
    if not fields or not all(field.isascii() and field.isdigit() and len(field) < 6 for field in fields):
        raise ConfigError(f"--version: {text!r} is not a version; write e.g. 2.10 or r1.5")
    return tuple(map(int, fields))


def checked_mode(mode: str | None) -> str | None:
    """Return a mode; unknown ones are refused."""
    if mode is not None and mode not in MODES:
        raise ConfigError(f"--mode: unknown mode {mode!r}; known: {', '.join(MODES)}")
    return mode


_KEY = "common_dump_settings.kernels"
_COUNTER = re.compile(r"-op[0-9]+$")
_MOST_LISTED = 3


def would_dump(document: Mapping[str, Any], names: Sequence[str], setting: Setting) -> list[str]:
    """Return the operators that a run dumps with a valid configuration, of the full names of all operators."""
    common = document.get("common_dump_settings")
    if isinstance(common, Mapping):
        kernels = [entry for entry in common.get("kernels") or () if isinstance(entry, str)]
        # Overflow detection looks at every operator.
        if common.get("dump_mode") != 1 or not kernels or common.get("op_debug_mode"):
            return list(names)
        chosen_by = [[entry] if _as_name(entry, setting) else chosen(entry, names) for entry in kernels]
        found = {name for names_of_entry in chosen_by for name in names_of_entry}
        return [name for name in names if name in found]
    models = document["dump"].get("dump_list") or ()
    listed = [model["layer"] for model in models if isinstance(model, Mapping) and model.get("layer")]
    layers = {layer for layers in listed for layer in layers}
    return [name for name in names if name in layers] if len(listed) == len(models) and listed else list(names)


def _as_name(entry: str, setting: Setting) -> Message | None:
    """Say why an expression or a type is taken for a full name here; ``None`` where it is not."""
    # Up to 1.5 there are full names only, in 2.0 types as well; later expressions, and no types with O2.
    if REGEX.fullmatch(entry):
        return Message("config_later_regex") if setting.version < (2, 1) else None
    if any(part in entry for part in OF_FULL_NAMES):
        return None
    if setting.runs(*SUNK):
        return Message("config_no_types", {"mode": setting.mode})
    return Message("config_later_types") if setting.version < (1, 6) else None


def kernel_findings(
    kernels: Sequence[object], names: Sequence[str] | None, setting: Setting, *, counts: bool
) -> Iterator[ConfigFinding]:
    """Yield findings of a `kernels` list; where it `counts`, also of what it matches of the operators' full names."""
    for entry in kernels:
        if not isinstance(entry, str):
            yield warning(_KEY, "config_not_text", name=repr(entry))
            continue
        if because := _as_name(entry, setting):
            if counts and entry not in (names or ()):
                yield warning(_KEY, "config_taken_as_name", name=repr(entry), because=because)
            continue
        try:
            found = chosen(entry, names or ())
        except re.error as error:
            yield refused(_KEY, "config_bad_regex", name=repr(entry), error=str(error))
            continue
        if names is None or not counts:
            continue
        if not found:
            is_beginning = any(name.startswith(entry) for name in names)
            hint = Message("config_beginning", {"entry": entry}) if is_beginning else None
            yield warning(_KEY, "config_matches_none", name=repr(entry), hint=hint)
        elif not any(part in entry for part in OF_FULL_NAMES) and not REGEX.fullmatch(entry):
            yield from _other_types(entry, found)


def _other_types(entry: str, found: Sequence[str]) -> Iterator[ConfigFinding]:
    types = {_COUNTER.sub("", name.rsplit("/", 1)[-1]) for name in found}
    others = sorted(one for one in types if one.lower() != entry.lower())
    if others and len(types) > 1:
        listed = ", ".join(others[:_MOST_LISTED]) + (" …" if len(others) > _MOST_LISTED else "")
        yield warning(_KEY, "config_also_matches", name=repr(entry), others=listed, entry=entry)
