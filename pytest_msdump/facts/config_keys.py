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
    """One key.

    `kind` is "uint", "bool", "text", "texts", "numbers", "steps" (a text such as ``0|5-8``), "path" (absolute),
    "name" or "models". `meaning` also says what holds without the key where there is no `default`. `choices` are all
    values there are, empty where any will do. Known from version `since` to before `until`; counts in `modes`, and is
    read and without effect in others.
    """

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
_required = partial(_common, required=True)
# Keys that count where a graph runs kernel by kernel.
_by_kernel = partial(_e2e, since=(2, 3), modes=frozenset({"o0", "o1"}))
_old_async = partial(ConfigKey, _ASYNC, until=(1, 5), modes=frozenset({"r1-async"}))
_OLD_CHECK = _old_async(
    "op_debug_mode",
    "uint",
    "0: tensors; 1: overflow in the AI Core; 2: in atomic additions; 3: both",
    default=0,
    choices=(0, 1, 2, 3),
)

DUMP_KEYS: tuple[ConfigKey, ...] = (
    _required("dump_mode", "uint", "0: every operator; 1: those in kernels", choices=(0, 1), until=(1, 6)),
    _required(
        "dump_mode", "uint", "0: every operator; 1: those in kernels; 2: by set_dump", choices=(0, 1, 2), since=(1, 6)
    ),
    _required("path", "path", "where to dump to", until=(1, 5)),
    _common("path", "path", "where to dump to; empty: $MS_DIAGNOSTIC_DATA_PATH/debug_dump", default="", since=(1, 5)),
    _required("net_name", "name", "a name for the network, which becomes a directory"),
    _required("iteration", "uint", "which iteration, counted from 0; 0 alone means all of them", until=(1, 5)),
    _required(
        "iteration", "steps", "which iterations, counted from 0: all, or numbers and ranges such as 0|5-8", since=(1, 5)
    ),
    _required("input_output", "uint", "0: inputs and outputs; 1: inputs; 2: outputs", choices=(0, 1, 2)),
    _required("kernels", "texts", "operators for dump_mode 1: full names", until=(1, 6)),
    _required(
        "kernels", "texts", "operators for dump_mode 1: full names, types (not with O2), name-regex(…)", since=(1, 6)
    ),
    _required("support_device", "numbers", "devices to dump on", modes=_EVERYWHERE - {"cpu"}),
    _OLD_CHECK._replace(section=_COMMON, since=(1, 5), until=(2, 1), modes=_ASCEND | {"r1-async"}),
    _common(
        "op_debug_mode",
        "uint",
        "0: tensors; 3: overflowing operators only; 4: inputs of an operator that raised an exception (1 and 2 mean 3)",
        default=0,
        choices=(0, 1, 2, 3, 4),
        since=(2, 1),
        modes=_ASCEND,
    ),
    _common(
        "saved_data",
        "text",
        "tensor, statistic, or full for both",
        default="tensor",
        choices=("tensor", "statistic", "full"),
        since=(1, 6),
    ),
    _common(
        "statistic_category",
        "texts",
        "which statistics",
        default=("max", "min", "l2norm"),
        choices=CATEGORIES,
        since=(2, 3),
    ),
    _common(
        "file_format",
        "text",
        "npy, or bin as the device has it",
        default="bin",
        choices=("npy", "bin"),
        since=(1, 6),
        modes=frozenset({*SUNK, "r1-async"}),
    ),
    _common("overflow_number", "uint", "how many overflows to dump; 0: all", default=0, since=(2, 0), modes=_ASCEND),
    _common("initial_iteration", "uint", "the number that iterations begin with", default=0, since=(2, 0)),
    _e2e("enable", "bool", "synchronous dump; false or absent: asynchronous, on Ascend", modes=_EVERYWHERE - {*SUNK}),
    _e2e(
        "trans_flag",
        "bool",
        "bring tensors to their host shape and NCHW; false: as the device has them",
        default=True,
        modes=frozenset({"gpu", "o0", "o1", "r1-sync"}),
    ),
    _by_kernel("stat_calc_mode", "text", "where statistics are computed", default="host", choices=("host", "device")),
    _by_kernel(
        "device_stat_precision_mode",
        "text",
        "high: statistics on the device in float32; low: in the tensor's own type, which may overflow",
        default="high",
        choices=("high", "low"),
    ),
    _by_kernel("sample_mode", "uint", "1: save a sample of each tensor", default=0, choices=(0, 1)),
    _by_kernel("sample_num", "uint", "size of the sample", default=100),
    _by_kernel("save_kernel_args", "bool", "save what operators were initialised with", default=False),
    _old_async("enable", "bool", "asynchronous dump; absent: none"),
    _OLD_CHECK,
)

_ACL_STATISTICS = ("Max", "Min", "Avg", "Nan", "Negative Inf", "Positive Inf", "L2norm")

_acl = partial(ConfigKey, "dump")
_acl_model = partial(ConfigKey, "dump.dump_list")

ACL_KEYS: tuple[ConfigKey, ...] = (
    _acl("dump_path", "text", "where to dump to; has to be there already, and may hold $VARIABLES", required=True),
    _acl("dump_list", "models", "models to dump; empty: single operators; absent: with dump_debug or dump_scene only"),
    _acl("dump_mode", "text", "which tensors", default="output", choices=("input", "output", "all")),
    _acl(
        "dump_level",
        "text",
        "operators, kernels, or both; absent: CANN's release decides",
        choices=("op", "kernel", "all"),
    ),
    _acl("dump_op_switch", "text", "dump single operators", default="off", choices=("on", "off")),
    _acl("dump_step", "steps", "which iterations: numbers and ranges such as 0|3-5; absent: all"),
    _acl("dump_data", "text", "tensors or statistics", default="tensor", choices=("tensor", "stats")),
    _acl(
        "dump_stats", "texts", "which ones, with dump_data stats", default=_ACL_STATISTICS[:-1], choices=_ACL_STATISTICS
    ),
    _acl("dump_debug", "text", "overflow detection", default="off", choices=("on", "off")),
    _acl("dump_scene", "text", "exception dump, e.g. lite_exception; absent: none"),
)
ACL_MODEL_KEYS: tuple[ConfigKey, ...] = (
    _acl_model("model_name", "text", "its file without the ending, or the name in its JSON; absent: every model"),
    _acl_model("layer", "texts", "operators to dump; absent: every operator"),
)
