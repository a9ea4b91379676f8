"""New dump configurations, what the script has to do for them, and explanations of their keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_msdump.capabilities.config.check import check_config, counts, is_acl, unknown
from pytest_msdump.capabilities.config.finding import REFUSED, ConfigFinding, Setting, checked_mode
from pytest_msdump.capabilities.config.keys import ACL_KEYS, ACL_MODEL_KEYS, DUMP_KEYS, SUNK, ConfigKey
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import shell_word
from pytest_msdump.core.text import ENGLISH, Message, Parameter, Phrases, in_clauses

_ALL_DEVICES = list(range(8))


def around_step(step: int) -> str:
    """Return the iterations of the step that goes wrong and of the one before; steps are counted from 1."""
    if step < 1:
        raise ConfigError(f"--around-step {step}: steps are counted from 1")
    return "0" if step == 1 else f"{step - 2}|{step - 1}"


def new_config(
    *, path: str, net: str, mode: str, iteration: str, kernels: Sequence[str], outputs_only: bool = False
) -> dict[str, Any]:
    """Return the keys of a configuration for MindSpore 2.x, of 1.5 in modes of 1.x; no `kernels` are all."""
    common: dict[str, Any] = {
        "op_debug_mode": 0,
        "dump_mode": 1 if kernels else 0,
        "path": path,
        "net_name": net,
        "iteration": iteration,
        "saved_data": "tensor",
        "input_output": 2 if outputs_only else 0,
        "kernels": list(kernels),
        "support_device": _ALL_DEVICES,
    }
    if mode in SUNK:
        return {"common_dump_settings": {**common, "file_format": "npy"}}
    if mode.startswith("r1"):
        del common["saved_data"]
    if mode == "r1-async":
        return {"common_dump_settings": common}
    if mode == "r1-sync":
        del common["op_debug_mode"]
    return {"common_dump_settings": common, "e2e_dump_settings": {"enable": True, "trans_flag": True}}


def refusal(document: Mapping[str, Any], mode: str) -> ConfigFinding | None:
    """Return the first finding for which MindSpore would refuse a configuration in this mode."""
    findings = check_config(document, Setting(mode=checked_mode(mode)))
    return next((finding for finding in findings if finding.level == REFUSED), None)


def new_acl(
    *, path: str, models: Sequence[str], layers: Sequence[str], steps: str | None, outputs_only: bool
) -> dict[str, Any]:
    """Return the keys of an ``acl.json``."""
    chosen = {"layer": list(layers)} if layers else {}
    dump: dict[str, Any] = {
        "dump_path": path,
        "dump_mode": "output" if outputs_only else "all",
        "dump_list": [{"model_name": model, **chosen} for model in models] or ([chosen] if chosen else []),
        "dump_op_switch": "off" if models or layers else "on",
    }
    return {"dump": {**dump, **({"dump_step": steps} if steps else {})}}


def acl_lines(file: str, say: Phrases) -> Iterator[str]:
    """Yield what the program has to do with its ``acl.json``."""
    yield f"# {say('script_acl')}"
    yield f'acl.init("{file}")    # C++: aclInit("{file}")'


def script_lines(file: str, say: Phrases = ENGLISH, *, mode: str, last_step: int | None) -> Iterator[str]:
    """Yield what to add to the script and to its environment; nothing is dumped after `last_step`, counted from 1."""
    yield f"# {say('script_before')}"
    yield f"export MINDSPORE_DUMP_CONFIG={shell_word(file)}"
    if mode == "ge":
        yield "export ENABLE_MS_GE_DUMP=1"
    yield ""
    yield f"# {say('script_scopes')}"
    place = "mindspore.context" if mode.startswith("r1") else "mindspore"
    yield f"{place}.set_context(reserve_class_name_in_scope=False)"
    yield f"# {say('script_steps')}"
    sink = "dataset_sink_mode=True, sink_size=1" if mode in SUNK else "dataset_sink_mode=False"
    yield f"model.train(epochs, dataset, callbacks=callbacks, {sink})"
    if last_step is not None:
        yield f"# {say('script_stop', n=last_step)}"
        yield "def on_train_step_end(self, run_context):"
        yield f"    if run_context.original_args().cur_step_num >= {last_step}:"
        yield "        run_context.request_stop()"


# (key, value as JSON has it, what the key means)
Explained = tuple[str, str | Message, Message]

_STEP = re.compile(r"[0-9]{1,18}")


def explain(document: Mapping[str, Any], setting: Setting) -> Iterator[Explained]:
    """Yield every key that is there, and what those mean that are not; `document` is of either kind."""
    keys = ACL_KEYS if is_acl(document) else DUMP_KEYS
    for name in dict.fromkeys((*(key.section for key in keys), *document)):
        mine, section = [key for key in keys if key.section == name], document.get(name, {})
        if not mine or not isinstance(section, Mapping):
            must = Message("config_must_be", {"key": name, "what": Message("config_object")})
            yield name, json.dumps(section), must if mine else Message("config_ignored_section")
            continue
        yield from _explained(section, name, mine, setting)
        models = section.get("dump_list") if is_acl(document) else None
        for number, model in enumerate(models if isinstance(models, list) else ()):
            if isinstance(model, Mapping):
                yield from _explained(model, f"{name}.dump_list[{number}]", ACL_MODEL_KEYS, setting)


def _explained(
    section: Mapping[str, Any], name: str, mine: Sequence[ConfigKey], setting: Setting
) -> Iterator[Explained]:
    now = {key.name: key for key in mine if key.is_known(setting.version)}
    for key in now.values():
        place, is_idle = f"{name}.{key.name}", not counts(key, setting)
        if key.name in section:
            idle = Message("config_no_effect", {"key": key.name, "mode": setting.mode}) if is_idle else None
            idle = Message("config_needed", {"meaning": idle}) if idle and key.required else idle
            yield place, _shown(key, section[key.name]), idle or _meaning(key, section[key.name], setting)
        elif key.required:
            yield place, Message("config_absent"), Message("config_needed", {"meaning": Message(key.meaning)})
        elif not is_idle:
            usual = Message("config_default", {"value": json.dumps(key.default)})
            yield place, Message("config_absent") if key.default is None else usual, Message(key.meaning)
    for said in [said for said in section if said not in now]:
        yield f"{name}.{said}", json.dumps(section[said]), unknown(said, mine, now, setting)


def _meaning(key: ConfigKey, value: object, setting: Setting) -> Message:
    if key.name == "iteration" and setting.is_first:
        return Message("every_iteration") if value == 0 else Message("config_iteration", {"value": str(value)})
    if key.kind == "steps" and isinstance(value, str):
        steps = Message("every_iteration") if value == "all" else _steps(value)
        return steps if value == "all" else in_clauses(steps, Message(key.meaning))
    return Message(key.meaning)


def _steps(text: str) -> Message:
    steps: list[Parameter] = []
    for part in text.split("|"):
        first, _, last = part.partition("-")
        if not all(map(_STEP.fullmatch, (first, last or first))):
            steps.append(Message("config_step_none", {"part": f"{part!r:.60}"}))
        elif last:
            steps.append(Message("config_step_range", {"first": int(first) + 1, "last": int(last) + 1}))
        else:
            steps.append(Message("config_step", {"first": int(first) + 1}))
    return Message("config_steps_of", {"steps": tuple(steps)})


def _shown(key: ConfigKey, value: object) -> str | Message:
    if key.kind == "models" and value and isinstance(value, list):
        return Message("config_models", {"n": len(value)})
    return json.dumps(value, ensure_ascii=False)
