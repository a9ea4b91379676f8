"""Every key of MindSpore's ``data_dump.json`` and of Ascend's ``acl.json``: what it takes, since when, and where.

References
----------
MindSpore "Dump" documentation, releases 1.2, 1.3, 1.5, 2.0 and later 2.x; answers of MindSpore 2.10 on CPU to each.
CANN "acl.json" dump configuration, `aclInit`. Where no document says since when a key is known, it is 2.0.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

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
