"""New dump configurations, what the script has to do for them, and explanations of their keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_msdump.configs.check import is_acl
from pytest_msdump.configs.finding import Setting
from pytest_msdump.errors import ConfigError
from pytest_msdump.escape import shell_word
from pytest_msdump.facts.config_keys import ACL_KEYS, DUMP_KEYS, ConfigKey

_ALL_DEVICES = list(range(8))


def around_step(step: int) -> str:
    """Return the iterations of the step that goes wrong and of the one before; steps are counted from 1."""
    if step < 1:
        raise ConfigError(f"--around-step {step}: steps are counted from 1")
    return "0" if step == 1 else f"{step - 2}|{step - 1}"


def new_config(
    *, path: str, net: str, mode: str, iteration: str, kernels: Sequence[str], outputs_only: bool = False
) -> dict[str, Any]:
    """Return the keys of a configuration for MindSpore 2.x; no `kernels` stand for all operators."""
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
    if mode == "o2":
        return {"common_dump_settings": {**common, "file_format": "npy"}}
    return {"common_dump_settings": common, "e2e_dump_settings": {"enable": True, "trans_flag": True}}


def new_acl(
    *, path: str, models: Sequence[str], layers: Sequence[str], steps: str | None, outputs_only: bool
) -> dict[str, Any]:
    """Return the keys of an ``acl.json``.

    `path` is an existing folder, and may hold ``$VARIABLES``. No `models` stand for single operators or, with `layers`,
    for every model; no `layers` for all operators of each model. `steps` are such as ``0|3-5``, by default all.
    """
    chosen = {"layer": list(layers)} if layers else {}
    dump: dict[str, Any] = {
        "dump_path": path,
        "dump_mode": "output" if outputs_only else "all",
        "dump_list": [{"model_name": model, **chosen} for model in models] or ([chosen] if chosen else []),
        "dump_op_switch": "off" if models or layers else "on",
    }
    return {"dump": {**dump, **({"dump_step": steps} if steps else {})}}


def acl_lines(file: str) -> Iterator[str]:
    """Yield what the program has to do with its ``acl.json``."""
    yield "# in the program, before it does anything else with the device:"
    yield f'acl.init("{file}")    # C++: aclInit("{file}")'


def script_lines(file: str, *, mode: str, last_step: int | None) -> Iterator[str]:
    """Yield what to add to the script and to its environment; nothing is dumped after `last_step`, counted from 1."""
    yield "# before the script starts, and before mindspore.communication.init():"
    yield f"export MINDSPORE_DUMP_CONFIG={shell_word(file)}"
    if mode == "ge":
        yield "export ENABLE_MS_GE_DUMP=1"
    yield ""
    yield "# in the script: short scopes, so that file names are not too long"
    yield "mindspore.set_context(reserve_class_name_in_scope=False)"
    yield "# one step at a time"
    sink = "dataset_sink_mode=True, sink_size=1" if mode == "o2" else "dataset_sink_mode=False"
    yield f"model.train(epochs, dataset, callbacks=callbacks, {sink})"
    if last_step is not None:
        yield f"# stop after step {last_step}: a callback with"
        yield "def on_train_step_end(self, run_context):"
        yield f"    if run_context.original_args().cur_step_num >= {last_step}:"
        yield "        run_context.request_stop()"


# (key, value as JSON has it, what the key means)
Explained = tuple[str, str, str]

_STEP = re.compile(r"[0-9]{1,18}")


def explain(document: Mapping[str, Any], setting: Setting) -> Iterator[Explained]:
    """Yield every key that is there, and those whose default counts; `document` is of either kind."""
    keys = ACL_KEYS if is_acl(document) else DUMP_KEYS
    for key in keys:
        if not key.since <= setting.version < key.until or (setting.mode and setting.mode not in key.modes):
            continue
        section = document.get(key.section)
        if not isinstance(section, Mapping):
            continue
        name = f"{key.section}.{key.name}"
        if key.name in section:
            yield name, _shown(section[key.name]), _meaning(key, section[key.name], setting)
        elif key.default is not None:
            yield name, f"{_shown(key.default)} (default)", key.meaning


def _meaning(key: ConfigKey, value: object, setting: Setting) -> str:
    if key.name == "iteration" and setting.is_first:
        return "every iteration" if value == 0 else f"iteration {value}, counted from 0"
    if key.kind == "steps" and isinstance(value, str):
        return "every iteration" if value == "all" else f"{_steps(value)}; {key.meaning}"
    return key.meaning


def _steps(text: str) -> str:
    steps = []
    for part in text.split("|"):
        first, _, last = part.partition("-")
        if not all(map(_STEP.fullmatch, (first, last or first))):
            steps.append(f"{part!r:.60} (nothing)")
        elif last:
            steps.append(f"steps {int(first) + 1} to {int(last) + 1}")
        else:
            steps.append(f"step {int(first) + 1}")
    return ", ".join(steps) + " of the script"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else str(value)
