"""What the keys of a ``data_dump.json`` do to each other: one function a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_msdump.configuring.finding import REFUSED, WARNING, ConfigFinding, Setting
from pytest_msdump.facts.config_keys import CATEGORIES, DEVICE_CATEGORIES, DUMP_KEYS

__all__ = ["RULES", "Values"]

_DEFAULTS = {key.name: key.default for key in DUMP_KEYS if key.section != "async_dump_settings"}
_COMMON, _E2E = "common_dump_settings.", "e2e_dump_settings."


class Values:
    """A configuration's values with defaults for what it does not say, and whether it says it."""

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
        yield ConfigFinding(WARNING, f"{_COMMON}kernels", "kernels is empty, so dump_mode 1 dumps every operator")
    if values["dump_mode"] == 0 and kernels and not values["op_debug_mode"]:
        yield ConfigFinding(
            WARNING, f"{_COMMON}kernels", "kernels counts with dump_mode 1 only; dump_mode 0 dumps every operator"
        )


def _set_dump(values: Values) -> Iterator[ConfigFinding]:
    if values["dump_mode"] != 2:
        return
    if values.setting.runs("cpu"):
        yield ConfigFinding(REFUSED, f"{_COMMON}dump_mode", "dump_mode 2 (set_dump) is refused on CPU; use 0 or 1")
    elif values.setting.runs("o0", "o1", "o2") and values["enable"]:
        yield ConfigFinding(
            REFUSED, f"{_COMMON}dump_mode", "dump_mode 2 (set_dump) needs the asynchronous dump: set enable to false"
        )
    if values["op_debug_mode"]:
        yield ConfigFinding(WARNING, f"{_COMMON}dump_mode", "dump_mode 2 counts with op_debug_mode 0 only")


def _debug_mode(values: Values) -> Iterator[ConfigFinding]:
    mode, key = values["op_debug_mode"], f"{_COMMON}op_debug_mode"
    if not mode or values.setting.is_first:
        return
    if mode in (1, 2):
        yield ConfigFinding(WARNING, key, f"op_debug_mode {mode} is taken for 3")
    if values.setting.runs("cpu", "gpu"):
        what = "only Parameter files are written" if mode == 4 else "every tensor is dumped as with 0"
        yield ConfigFinding(WARNING, key, f"op_debug_mode {mode} does not work on {values.setting.mode}: {what}")
        return
    if mode == 4 and values.setting.runs("ge"):
        yield ConfigFinding(REFUSED, key, "op_debug_mode 4 is not there for the GE dump")
    if values["dump_mode"]:
        yield ConfigFinding(WARNING, f"{_COMMON}dump_mode", f"dump_mode counts as 0 with op_debug_mode {mode}")
    if mode != 4 and values["input_output"]:
        yield ConfigFinding(WARNING, f"{_COMMON}input_output", "op_debug_mode 3 saves inputs and outputs alike")
    if mode == 4 and values["input_output"] == 2:
        yield ConfigFinding(WARNING, f"{_COMMON}input_output", "op_debug_mode 4 saves inputs only")
    if values["iteration"] != "all" and (mode == 4 or values.setting.runs("o2")):
        yield ConfigFinding(WARNING, f"{_COMMON}iteration", f"op_debug_mode {mode} looks at all iterations")
    if values.wants_statistics:
        yield ConfigFinding(WARNING, f"{_COMMON}saved_data", "statistics are saved with op_debug_mode 0 only")


def _overflow_number(values: Values) -> Iterator[ConfigFinding]:
    key = f"{_COMMON}overflow_number"
    if "overflow_number" not in values:
        return
    if values["op_debug_mode"] not in (1, 2, 3):
        yield ConfigFinding(REFUSED, key, "overflow_number goes with op_debug_mode 3 only; leave it out")
    elif values.setting.runs("o2") and values["file_format"] != "npy":
        yield ConfigFinding(REFUSED, key, "overflow_number counts with file_format npy only in mode o2")


def _statistics(values: Values) -> Iterator[ConfigFinding]:
    if not values.wants_statistics:
        if values["stat_calc_mode"] == "device":
            yield ConfigFinding(WARNING, f"{_E2E}stat_calc_mode", "stat_calc_mode has no effect without statistics")
        if "statistic_category" in values:
            yield ConfigFinding(
                WARNING, f"{_COMMON}statistic_category", "statistic_category has no effect while saved_data is tensor"
            )
        return
    strange = [one for one in values["statistic_category"] or () if one not in CATEGORIES]
    if strange:
        yield ConfigFinding(
            REFUSED,
            f"{_COMMON}statistic_category",
            f"statistic_category knows no {', '.join(map(repr, strange))}; known: {', '.join(CATEGORIES)}",
        )
    if values.setting.runs("cpu"):
        yield ConfigFinding(REFUSED, f"{_COMMON}saved_data", "statistics are refused on CPU; set saved_data to tensor")
    if values.setting.runs("o2") and values["file_format"] != "npy":
        yield ConfigFinding(REFUSED, f"{_COMMON}file_format", "statistics need file_format npy in mode o2, not bin")
    if values["stat_calc_mode"] != "device":
        return
    if values.setting.runs("o2", "gpu"):
        yield ConfigFinding(
            WARNING, f"{_E2E}stat_calc_mode", f"statistics are computed on the host in mode {values.setting.mode}"
        )
    dropped = [one for one in values["statistic_category"] or () if one not in DEVICE_CATEGORIES]
    if dropped:
        yield ConfigFinding(
            WARNING, f"{_COMMON}statistic_category", f"{', '.join(map(str, dropped))} cannot be had from the device"
        )


def _sample(values: Values) -> Iterator[ConfigFinding]:
    if values["sample_mode"] != 1:
        return
    if values["sample_num"] == 0:
        yield ConfigFinding(REFUSED, f"{_E2E}sample_num", "sample_num must be 1 or more")
    elif values["op_debug_mode"]:
        yield ConfigFinding(WARNING, f"{_E2E}sample_mode", "samples are taken with op_debug_mode 0 only")
    elif not values.setting.runs("cpu", "gpu", "o2"):
        yield ConfigFinding(
            WARNING,
            f"{_E2E}sample_mode",
            f"at most {values['sample_num']} elements along the first axis of each tensor are saved",
        )


def _enable(values: Values) -> Iterator[ConfigFinding]:
    key = f"{_E2E}enable"
    if values.setting.is_first:
        yield from _first_enable(values)
        return
    if values.setting.runs("cpu", "gpu") and values.e2e.get("enable") is False:
        yield ConfigFinding(WARNING, key, f"enable: false does not switch the dump off on {values.setting.mode}")
    if values["save_kernel_args"] and not values["enable"]:
        yield ConfigFinding(WARNING, f"{_E2E}save_kernel_args", "save_kernel_args counts with enable: true only")
    if not values.e2e and values.setting.runs("cpu", "o0", "o1"):
        yield ConfigFinding(
            WARNING, "e2e_dump_settings", "e2e_dump_settings is missing; MindSpore asks for it in this mode"
        )
    if values.setting.runs("o2") and values.e2e:
        yield ConfigFinding(WARNING, "e2e_dump_settings", "e2e_dump_settings has no effect in mode o2")


def _first_enable(values: Values) -> Iterator[ConfigFinding]:
    both = values.e2e.get("enable") is True, values.asynchronous.get("enable") is True
    if all(both):
        yield ConfigFinding(
            WARNING, "async_dump_settings.enable", "both dumps are enabled: the synchronous one alone takes place"
        )
    if not any(both):
        yield ConfigFinding(REFUSED, "e2e_dump_settings.enable", "neither dump is enabled, so nothing would be dumped")
    if values.setting.runs("cpu"):
        yield ConfigFinding(REFUSED, "common_dump_settings", "before 1.5 there is no dump on CPU")
    if values.setting.runs("r1-sync", "gpu") and values["input_output"] != 2:
        yield ConfigFinding(WARNING, f"{_COMMON}input_output", "before 1.5, GPU dumps outputs only")


def _script(values: Values) -> Iterator[ConfigFinding]:
    """What the script has to do for the configuration to work."""
    if values.setting.runs("o2"):
        yield ConfigFinding(WARNING, f"{_COMMON}iteration", "in mode o2 the sink size of the script must be 1")
    if values.setting.runs("r1-async") and values.setting.is_first and values["iteration"] != 0:
        yield ConfigFinding(
            WARNING,
            f"{_COMMON}iteration",
            "without data sinking iteration must be 0, and all steps are dumped into one directory; with it, this is "
            "the one step that is dumped",
        )
    if values.setting.runs("r1-sync", "gpu"):
        yield ConfigFinding(WARNING, f"{_COMMON}iteration", "the script must run with dataset_sink_mode=False")


RULES: tuple[Rule, ...] = (
    _kernels,
    _set_dump,
    _debug_mode,
    _overflow_number,
    _statistics,
    _sample,
    _enable,
    _script,
)
