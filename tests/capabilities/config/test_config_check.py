"""What MindSpore 2.10 on CPU answered to each of these configurations, and what the documents say of other modes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_msdump.capabilities.config import command
from pytest_msdump.capabilities.config.check import check_config
from pytest_msdump.capabilities.config.command import around_step, new_config, script_lines
from pytest_msdump.capabilities.config.keys import (
    MODES,
    REFUSED,
    Setting,
    parse_version,
    setting_of,
)
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.model.kernel_lists import chosen
from pytest_msdump.core.suite import read_toml
from pytest_msdump.core.text import ENGLISH, plain_text

COMMON: dict[str, Any] = {
    "dump_mode": 0,
    "path": "/data/dump",
    "net_name": "Net",
    "iteration": "all",
    "input_output": 0,
    "kernels": [],
    "support_device": [0],
    "op_debug_mode": 0,
}
E2E: dict[str, Any] = {"enable": True, "trans_flag": True}
ABSENT = "(absent)"
# What MindSpore 2.10 on CPU answered to changes of the plain configuration, and what the check says of each.
ANSWERS = read_toml(Path(__file__).with_name("mindspore_cpu.toml"))


def explain(document, setting):
    return [
        (key, ENGLISH.of(value if not isinstance(value, str) else plain_text(value)), ENGLISH.of(meaning))
        for key, value, meaning in command.explain(document, setting)
    ]


def config(**changes: Any) -> dict[str, Any]:
    """A configuration that MindSpore takes, but for `changes`; names that begin with e2e_ are of the second section."""
    common, e2e = copy.deepcopy(COMMON), copy.deepcopy(E2E)
    for name, value in changes.items():
        section, key = (e2e, name[4:]) if name.startswith("e2e_") else (common, name)
        if value == ABSENT:
            section.pop(key, None)
        else:
            section[key] = value
    return {"common_dump_settings": common, "e2e_dump_settings": e2e}


def told(document: object, mode: str | None = "cpu", version: str = "2.10", **more: Any) -> list[tuple[str, str]]:
    findings = check_config(document, Setting(parse_version(version), mode), environ=more.pop("environ", {}), **more)
    assert all("\n" not in finding.sentence for finding in findings)
    return [(finding.level, finding.sentence) for finding in findings]


def refusals(document: object, mode: str | None = "cpu", version: str = "2.10", **more: Any) -> list[str]:
    return [sentence for level, sentence in told(document, mode, version, **more) if level == REFUSED]


MISSING = [({key: ABSENT}, f"{key} is missing") for key in COMMON if key not in ("path", "op_debug_mode")]


@pytest.mark.parametrize(("changes", "says"), [*ANSWERS["refused"], *MISSING])
def test_what_mindspore_refuses_is_refused(changes, says):
    assert any(says in sentence for sentence in refusals(config(**changes)))


@pytest.mark.parametrize(("changes", "says"), ANSWERS["taken"])
def test_what_mindspore_takes_in_silence_is_taken_with_a_warning(changes, says):
    found = told(config(**changes))
    assert not [sentence for level, sentence in found if level == REFUSED]
    assert any(says in sentence for _, sentence in found) if says else not found


def test_without_its_second_section_it_runs():
    document = config()
    del document["e2e_dump_settings"]
    assert told(document) == [("warning", "e2e_dump_settings is missing; MindSpore asks for it in this mode")]


def test_an_empty_second_section_is_not_a_missing_one():
    document = {**config(), "e2e_dump_settings": {}}
    assert told(document) == [("warning", "e2e_dump_settings does not set enable, which has to be true")]
    assert told(document, "o0") == [("warning", "e2e_dump_settings does not set enable, so the dump is asynchronous")]


@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize(
    "changes",
    [
        {"op_debug_mode": 1},
        {"op_debug_mode": 3, "overflow_number": 2, "file_format": "npy"},
        {"op_debug_mode": 4, "overflow_number": 2},
        {"saved_data": "full", "statistic_category": ["md5"], "e2e_stat_calc_mode": "device"},
        {"e2e_sample_mode": 1, "e2e_sample_num": 3, "e2e_save_kernel_args": True, "e2e_enable": False},
        {"e2e_device_stat_precision_mode": "low", "e2e_sample_num": 3, "e2e_trans_flag": False},
    ],
)
def test_no_two_sentences_say_that_a_key_has_no_effect_and_why_another_way(mode, changes):
    findings = check_config(config(**changes), Setting((1, 6) if mode.startswith("r1") else (2, 10), mode), environ={})
    idle = [finding.key for finding in findings if f"has no effect in mode {mode}" in finding.sentence]
    assert [key for key in idle if [finding.key for finding in findings].count(key) > 1] == []


@pytest.mark.parametrize("document", [[1], 3, None, {}, {"other": {}}])
def test_what_is_no_configuration_says_so(document):
    with pytest.raises(ConfigError, match="dump configuration"):
        told(document)


@pytest.mark.parametrize("document", [{"e2e_dump_settings": {}}, {"common_dump_settings": 3}, {"dump": 3}])
def test_sections_of_another_kind_are_refused(document):
    assert refusals(document)


# The rules of other modes, as the documents of 2.x state them.
@pytest.mark.parametrize(
    ("mode", "changes", "level", "says"),
    [
        ("o2", {"saved_data": "statistic"}, REFUSED, "statistics need file_format npy"),
        ("o2", {"saved_data": "statistic", "file_format": "npy"}, None, "statistics need file_format npy"),
        ("o2", {"op_debug_mode": 3, "overflow_number": 1}, REFUSED, "overflow_number counts with file_format npy only"),
        ("o2", {}, "warning", "sink size of the script must be 1"),
        ("o2", {"file_format": "csv"}, REFUSED, "file_format knows npy, bin"),
        ("o0", {"dump_mode": 2}, REFUSED, "needs the asynchronous dump"),
        ("o0", {"dump_mode": 2, "e2e_enable": False}, None, "asynchronous"),
        ("gpu", {"dump_mode": 2}, None, "set_dump"),
        ("ge", {"dump_mode": 2}, REFUSED, "needs the asynchronous dump"),
        ("ge", {"op_debug_mode": 4}, REFUSED, "op_debug_mode 4 is not there for the GE dump"),
        ("o2", {"op_debug_mode": 4}, None, "op_debug_mode 4 is"),
        ("ge", {"saved_data": "full", "file_format": "bin"}, REFUSED, "statistics need file_format npy in mode ge"),
        ("r1-async", {"saved_data": "full"}, REFUSED, "statistics need file_format npy in mode r1-async"),
        ("ge", {"op_debug_mode": 3, "overflow_number": 1}, REFUSED, "overflow_number counts with file_format npy only"),
        ("ge", {"op_debug_mode": 3, "overflow_number": 1, "file_format": "npy"}, None, "overflow_number"),
        ("ge", {"file_format": "npy"}, None, "file_format"),
        ("ge", {"op_debug_mode": 3, "iteration": "3"}, "warning", "looks at all iterations"),
        ("ge", {}, "warning", "sink size of the script must be 1"),
        ("ge", {}, "warning", "e2e_dump_settings has no effect in mode ge"),
        ("ge", {"dump_mode": 1, "kernels": ["conv"]}, "warning", "mode ge knows no types"),
        ("o2", {"dump_mode": 1, "kernels": ["conv"]}, "warning", "mode o2 knows no types"),
        ("o2", {"kernels": ["conv"]}, None, "knows no types"),
        ("o2", {"dump_mode": 1, "kernels": ["name-regex(Default/.+)", "Default/Conv-op12"]}, None, "full name"),
        ("o0", {"dump_mode": 1, "kernels": ["conv", "name-regex(Default/.+)"]}, None, "full name"),
        ("o0", {"e2e_sample_num": 3}, "warning", "sample_num counts with sample_mode: 1 only"),
        ("o0", {"e2e_sample_num": 3, "e2e_sample_mode": 1}, None, "sample_num counts"),
        ("o1", {"e2e_device_stat_precision_mode": "low"}, "warning", 'counts with stat_calc_mode: "device" only'),
        ("o1", {"op_debug_mode": 4, "iteration": "3"}, "warning", "looks at all iterations"),
        ("o1", {"op_debug_mode": 3, "input_output": 1}, "warning", "saves inputs and outputs alike"),
        ("o1", {"op_debug_mode": 3, "dump_mode": 1}, "warning", "dump_mode counts as 0"),
        ("o0", {"e2e_sample_mode": 1}, "warning", "at most 100 elements along the first axis"),
        ("o0", {"e2e_sample_mode": 1, "op_debug_mode": 3}, "warning", "samples are taken with op_debug_mode 0 only"),
        (
            "o0",
            {"saved_data": "full", "e2e_stat_calc_mode": "device", "statistic_category": ["max", "md5"]},
            "warning",
            "md5 cannot be had from the device",
        ),
        ("o0", {"saved_data": "full", "statistic_category": 3}, "warning", "statistic_category must be an array"),
        ("o0", {"saved_data": "full", "statistic_category": ["mex"]}, REFUSED, "statistic_category knows no 'mex'"),
        ("o0", {"e2e_save_kernel_args": True, "e2e_enable": False}, "warning", "with enable: true only"),
        ("o0", {"support_device": []}, "warning", "no device dumps"),
    ],
)
def test_rules_of_other_modes(mode, changes, level, says):
    found = [(was, sentence) for was, sentence in told(config(**changes), mode) if says in sentence]
    assert [was for was, _ in found] == ([] if level is None else [level])


# The examples that each document gives for its own version.
EXAMPLES = json.loads((Path(__file__).parents[2] / "data/dump_configs.json").read_text("utf-8"))
R1_SYNC, R1_ASYNC, R15_SYNC, R15_ASYNC, MASTER, MASTER_O2, ACL, ACL_OPS = (
    EXAMPLES[name]
    for name in ("r13_sync", "r13_async", "r15_sync", "r15_async", "o0", "o2", "acl_models", "acl_operators")
)


@pytest.mark.parametrize(
    ("document", "version", "mode"),
    [
        (R1_SYNC, "1.3", "r1-sync"),
        (R1_SYNC, "r1.2", "r1-sync"),
        (R1_ASYNC, "1.3", "r1-async"),
        (R15_SYNC, "1.5", "gpu"),
        (R15_SYNC, "1.5", "cpu"),
        (R15_ASYNC, "1.5", "r1-async"),
        (MASTER, "2.10", "o0"),
        (MASTER, "2.10", "cpu"),
        (MASTER, "2.10", None),
        (MASTER_O2, "2.10", "o2"),
        (MASTER_O2, "2.10", "ge"),
        (ACL, "2.10", None),
        (ACL_OPS, "2.10", None),
    ],
)
def test_the_documents_own_examples_are_taken_and_explained(document, version, mode):
    setting = Setting(parse_version(version), mode)
    assert refusals(document, mode, version) == []
    assert [
        sentence for _, sentence in told(document, mode, version) if "unknown" in sentence or "known" in sentence
    ] == []
    lines = list(explain(document, setting))
    said = [key for key, _, _ in lines]
    assert len(said) == len(set(said))
    assert {f"{name}.{key}" for name, section in document.items() for key in section} <= set(said)
    assert all(meaning and "'" not in value for _, value, meaning in lines)


def _values(document: object, mode: str | None = None, version: str = "2.10") -> dict[str, str]:
    return {key: f"{value}: {said}" for key, value, said in explain(document, Setting(parse_version(version), mode))}


def test_keys_are_explained_absent_ones_and_those_without_effect_among_them():
    said = _values(ACL)
    assert said["dump.dump_step"] == "(absent): which iterations: numbers and ranges such as 0|3-5; absent: all"
    assert said["dump.dump_stats"].startswith('["Max", "Min", "Avg", "Nan", "Negative Inf", "Positive Inf"] (default)')
    assert said["dump.dump_list[0].layer"] == "(absent): operators to dump; absent: every operator"
    assert _values({"dump": {}})["dump.dump_path"].startswith("(absent): needed")
    said = _values(config(file_format="npy", colour=1), "cpu")
    assert said["common_dump_settings.file_format"] == '"npy": file_format has no effect in mode cpu'
    assert said["common_dump_settings.support_device"] == "[0]: needed: support_device has no effect in mode cpu"
    assert "unknown key 'colour' is silently ignored" in said["common_dump_settings.colour"]
    assert "is known since 1.6" in _values(MASTER_O2, "r1-async", "1.5")["common_dump_settings.file_format"]
    assert _values({**config(), "extra": {"a": None}})["extra"] == '{"a": null}: unknown section, silently ignored'
    assert _values(MASTER_O2, "ge")["common_dump_settings.file_format"].startswith('"npy": npy, or bin')
    assert (
        _values({**config(), "e2e_dump_settings": 3})["e2e_dump_settings"] == "3: e2e_dump_settings must be an object"
    )
    assert "name-regex" not in _values(R15_SYNC, "gpu", "1.5")["common_dump_settings.kernels"]
    assert "3: both" in _values(R15_ASYNC, "r1-async", "1.5")["common_dump_settings.op_debug_mode"]
    assert "1 and 2 mean 3" in _values(MASTER_O2, "o2")["common_dump_settings.op_debug_mode"]


# What the documents of 1.3 and 1.5 do not have yet.
@pytest.mark.parametrize(
    ("version", "changes", "level", "says"),
    [
        ("1.3", {"dump_mode": 2}, REFUSED, "dump_mode knows 0, 1; here it is the number 2"),
        ("1.5", {"dump_mode": 2, "iteration": "0"}, REFUSED, "dump_mode knows 0, 1; here it is the number 2"),
        ("2.0", {"dump_mode": 2, "iteration": "0"}, None, "dump_mode knows"),
        ("1.3", {"dump_mode": 1, "kernels": ["conv"]}, "warning", "types came with a later release"),
        ("1.5", {"dump_mode": 1, "kernels": ["conv"], "iteration": "0"}, "warning", "types came with a later release"),
        ("2.0", {"dump_mode": 1, "kernels": ["conv"], "iteration": "0"}, None, "later release"),
        ("1.5", {"dump_mode": 1, "kernels": ["name-regex(a.+)"], "iteration": "0"}, "warning", "name-regex(…) came"),
        ("2.10", {"dump_mode": 1, "kernels": ["name-regex(a.+)"], "iteration": "0"}, None, "name-regex(…) came"),
        ("1.3", {"path": ABSENT}, REFUSED, "path is missing"),
        ("1.3", {"path": ""}, REFUSED, "path is empty"),
    ],
)
def test_what_came_later_is_told(version, changes, level, says):
    document = config(**{"iteration": 0, **changes, "op_debug_mode": ABSENT})
    found = told(document, None, version, environ={"MS_DIAGNOSTIC_DATA_PATH": "/data"})
    assert [was for was, sentence in found if says in sentence] == ([] if level is None else [level])


@pytest.mark.parametrize(
    ("document", "mode", "version", "level", "says"),
    [
        (R1_ASYNC, "r1-sync", "1.3", "warning", "nothing is dumped synchronously"),
        (R1_ASYNC, "gpu", "1.3", REFUSED, "the asynchronous dump is for Ascend only"),
        (R1_ASYNC, "r1-async", "1.3", None, "dump is"),
        (R1_SYNC, "r1-async", "1.3", "warning", "nothing is dumped asynchronously"),
        (R1_SYNC, "r1-sync", "1.3", None, "nothing is dumped"),
        (R15_ASYNC, "r1-sync", "1.5", "warning", "nothing is dumped synchronously"),
        (R15_SYNC, "r1-async", "1.5", "warning", "nothing is dumped asynchronously"),
        (R15_ASYNC, "r1-async", "1.5", None, "nothing is dumped"),
        (R15_SYNC, "r1-sync", "1.5", None, "nothing is dumped"),
    ],
)
def test_a_file_of_the_other_dump_is_told(document, mode, version, level, says):
    found = [was for was, sentence in told(document, mode, version) if says in sentence]
    assert found == ([] if level is None else [level])


def test_what_a_version_means_by_iteration_is_told():
    (first,) = [meaning for key, _, meaning in explain(R1_SYNC, Setting((1, 3))) if key.endswith("iteration")]
    assert first == "every iteration"
    (later,) = [meaning for key, _, meaning in explain(R15_SYNC, Setting((1, 5))) if key.endswith("iteration")]
    assert later.startswith("step 1, steps 6 to 9, steps 101 to 121 of the script")


def test_before_1_5_one_of_two_dumps_has_to_be_enabled():
    both = {**R1_SYNC, "async_dump_settings": {"enable": True}}
    assert any("the synchronous one alone" in sentence for _, sentence in told(both, "r1-sync", "1.3"))
    neither = {"common_dump_settings": R1_SYNC["common_dump_settings"]}
    assert refusals(neither, "r1-sync", "1.3") == ["neither dump is enabled, so nothing would be dumped"]
    assert "before 1.5 there is no dump on CPU" in refusals(R1_SYNC, "cpu", "1.3")


# -- acl.json ---------------------------------------------------------------------------------------------------------


def acl(**changes: Any) -> dict[str, Any]:
    dump = {**copy.deepcopy(ACL["dump"]), **changes}
    return {"dump": {key: value for key, value in dump.items() if value != ABSENT}}


@pytest.mark.parametrize(
    ("changes", "level", "says"),
    [
        ({"dump_path": ABSENT}, REFUSED, "dump_path is missing"),
        ({"dump_list": ABSENT}, REFUSED, "dump_list is missing"),
        ({"dump_list": [{"model_name": "a"}, {"model_name": "a"}]}, REFUSED, "model 'a' is listed 2 times"),
        ({"dump_list": [{"model_name": "a", "layer": ["Data"]}]}, "warning", "Data runs on no core"),
        ({"dump_list": [{"model_name": "a", "layers": ["x"]}]}, "warning", "unknown key 'layers'"),
        ({"dump_list": [{"model_name": "a", "layer": "x"}]}, REFUSED, "layer must be an array"),
        ({"dump_list": [{"model_name": "a", "layer": ["x", "x"]}]}, "warning", "layer 'x' is listed 2 times"),
        ({"dump_list": []}, REFUSED, "nothing would be dumped"),
        ({"dump_op_switch": "on"}, "warning", "dump_list should be empty"),
        ({"dump_op_switch": "On"}, REFUSED, "dump_op_switch knows on, off"),
        ({"dump_debug": "on"}, REFUSED, "cannot be combined"),
        ({"dump_mode": "both"}, REFUSED, "dump_mode knows input, output, all"),
        ({"dump_step": 3}, REFUSED, "dump_step must be a string"),
        ({"dump_step": "5-3"}, "warning", "matches no iteration"),
        ({"dump_stats": ["Max"]}, "warning", "no effect unless dump_data is stats"),
        ({"dump_data": "stats", "dump_stats": ["Median"]}, "warning", "dump_stats knows Max"),
        ({"dump_path": "$NOWHERE_SET/x"}, "warning", "NOWHERE_SET is not set here"),
        ({"dump_path": "/no/such/folder"}, "warning", "/no/such/folder does not exist"),
    ],
)
def test_rules_of_acl_json(changes, level, says):
    found = [was for was, sentence in told(acl(**changes), None) if says in sentence]
    assert found == [level]


def test_layers_are_looked_for_in_the_model():
    found = told(acl(), None, names=["conv1conv1_relu", "pool2"], environ={"HOME": "/"})
    assert any("layer 'pool1' matches no operator; did you mean 'pool2'" in sentence for _, sentence in found)
    assert not any("conv1conv1_relu" in sentence for _, sentence in found)


# -- kernels ----------------------------------------------------------------------------------------------------------

NAMES = [
    "Default/conv1-Conv2d/Conv2D-op1",
    "Default/ReLU-op1",
    "Gradients/ReluGrad-op3",
    "Default/fc-Dense/BiasAdd-op0",
]


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("conv", NAMES[:1]),
        ("ReLU", NAMES[1:3]),
        ("add", NAMES[3:]),
        ("Default/ReLU-op1", NAMES[1:2]),
        ('" Default/ReLU-op1 "', NAMES[1:2]),
        ("Default/fc-Dense", []),
        ("name-regex(Default/.+)", [NAMES[0], NAMES[1], NAMES[3]]),
        ("ReLU-op", []),
    ],
)
def test_kernels_name_operators_as_mindspore_takes_them(entry, found):
    assert chosen(entry, NAMES) == found


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("ReLU", "'ReLU' also matches ReluGrad"),
        ("Nope", "'Nope' matches no operator of the graph"),
        ("Default/fc-Dense", "write name-regex(Default/fc-Dense.*)"),
    ],
)
def test_odd_kernels_are_told(entry, says):
    assert any(says in sentence for _, sentence in told(config(dump_mode=1, kernels=[entry]), names=NAMES))


# -- new --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", list(MODES))
def test_a_new_configuration_is_one_that_is_taken(mode):
    made = new_config(
        path="/data/dump", net="Net", mode=mode, iteration=around_step(10), kernels=["Default/Conv2D-op1"]
    )
    findings = check_config(made, setting_of(mode))
    # Nothing in it is without effect; what is left to say is for the script.
    assert {finding.key for finding in findings} <= {"common_dump_settings.iteration"}
    assert REFUSED not in {finding.level for finding in findings}
    assert made["common_dump_settings"]["iteration"] == "8|9"
    assert ("file_format" in made["common_dump_settings"]) == (mode in ("o2", "ge"))
    assert ("e2e_dump_settings" in made) == (mode not in ("o2", "ge", "r1-async"))
    lines = "\n".join(script_lines("/data/d.json", mode=mode, last_step=10))
    assert "export MINDSPORE_DUMP_CONFIG=/data/d.json" in lines
    assert "request_stop" in lines
    assert ("sink_size=1" in lines) == (mode in ("o2", "ge"))
    assert ("ENABLE_MS_GE_DUMP" in lines) == (mode == "ge")


@pytest.mark.parametrize("steps", ["9" * 5000, "0-" + "9" * 5000, "\N{SUPERSCRIPT TWO}", "1-\N{SUPERSCRIPT TWO}"])
def test_steps_that_are_no_numbers_mean_nothing(steps):
    document = copy.deepcopy(R15_SYNC)
    document["common_dump_settings"]["iteration"] = steps
    (told,) = [meaning for key, _, meaning in explain(document, Setting((1, 5))) if key.endswith("iteration")]
    assert "(nothing)" in told
    assert len(told) < 300
