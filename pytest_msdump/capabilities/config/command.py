"""``msdump config new|check|explain``: dump configurations, before a run is wasted on one."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.config.check import check_config, counts, is_acl, unknown
from pytest_msdump.capabilities.config.keys import (
    ACL_KEYS,
    ACL_MODEL_KEYS,
    DUMP_KEYS,
    MODES,
    REFUSED,
    SUNK,
    ConfigFinding,
    ConfigKey,
    Setting,
    checked_mode,
    setting_of,
    would_dump,
)
from pytest_msdump.capabilities.graphs.execution_order import order_files, read_order
from pytest_msdump.capabilities.graphs.ge_model import read_model
from pytest_msdump.capabilities.graphs.graph_files import read_graph
from pytest_msdump.cli.output import phrases, print_lines
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import shell_word, terminal_lines
from pytest_msdump.core.storage.files import read_user_file
from pytest_msdump.core.text import ENGLISH, Message, Parameter, Phrases, in_clauses

DESCRIPTION = (
    "Dump configurations: MindSpore's data_dump.json and CANN's acl.json. 'check' says what MindSpore would refuse "
    "(exit code 1) or silently ignore; 'explain' says what each key means; 'new' writes one."
)
EXAMPLES = (
    "msdump config new --path /data/dump --net LeNet --out data_dump.json",
    "msdump config check data_dump.json",
)

_VERBS = {
    "check": "Say what MindSpore or CANN would refuse (exit code 1), and what they would silently ignore.",
    "explain": "Say what each key of the file means, and of those that are not there which value holds.",
    "new": "Write a data_dump.json, or with --acl an acl.json. One that would be refused is not written (exit code 4).",
}

_LARGEST_BYTES = 2**24
_CONFIG_VARIABLE = "MINDSPORE_DUMP_CONFIG"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the three verbs."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="new|check|explain")
    for verb, text in (("check", "show what would be refused or ignored"), ("explain", "explain each key")):
        command = verbs.add_parser(verb, help=text, description=_VERBS[verb])
        command.add_argument(
            "file", metavar="FILE", nargs="?", help="data_dump.json or acl.json (default: $MINDSPORE_DUMP_CONFIG)"
        )
        command.add_argument("--version", metavar="V", help="of MindSpore (default: 2.10; in modes r1-…: 1.5)")
        command.add_argument("--mode", metavar="MODE", help=f"how the network runs: {', '.join(MODES)}")
        if verb == "check":
            command.add_argument(
                "--graph",
                action="append",
                default=[],
                metavar="FILE",
                help="the operators: an execution order, a graph of MindSpore or GE, JSON of a model; repeatable",
            )
    new = verbs.add_parser("new", help="write a new data_dump.json, or an acl.json", description=_VERBS["new"])
    new.add_argument("--path", required=True, metavar="DIR", help="where to dump to; absolute")
    new.add_argument("--net", default="Net", metavar="NAME", help="net_name (default: Net)")
    new.add_argument("--mode", default="cpu", metavar="MODE", help=f"how it runs: {', '.join(MODES)} (default: cpu)")
    new.add_argument("--iteration", metavar="SPEC", help='iterations, counted from 0, e.g. "0|5-8" (default: all)')
    new.add_argument("--around-step", type=int, metavar="N", help="the step, counted from 1, that goes wrong")
    new.add_argument("--kernel", action="append", default=[], metavar="NAME", help="an operator; repeatable")
    new.add_argument("--outputs-only", action="store_true", help="leave inputs out")
    new.add_argument("--acl", action="store_true", help="write an acl.json")
    new.add_argument("--model", action="append", default=[], metavar="NAME", help="with --acl: a model; repeatable")
    new.add_argument("-o", "--out", metavar="FILE", help="the file to write (default: standard output)")


def run(parsed: argparse.Namespace) -> int:
    """Run the verb; return the exit code."""
    if parsed.verb == "new":
        return _new(parsed, str(checked_mode(parsed.mode)))
    setting = setting_of(parsed.mode, parsed.version)
    parsed.file = parsed.file or os.environ.get(_CONFIG_VARIABLE)
    if not parsed.file:
        raise ConfigError(f"give a configuration; {_CONFIG_VARIABLE} is not set either")
    document = _read(Path(parsed.file))
    if parsed.verb == "check":
        return _check(parsed, document, setting)
    check_config(document, setting)
    say = phrases(parsed)
    for key, value, meaning in explain(document, setting):
        shown = say.of(value) if isinstance(value, Message) else value
        _say([f"{key} = {shown}\n    {say.of(meaning)}"])
    return 0


def _check(parsed: argparse.Namespace, document: Any, setting: Setting) -> int:
    names, model_names = _operators(parsed.graph)
    findings = check_config(document, setting, names=names, model_names=model_names)
    say = phrases(parsed)
    _say(f"{say(f'config_{one.level}')}: {one.key}: {say.of(one.message)}" for one in findings)
    refused = sum(finding.level == REFUSED for finding in findings)
    if names is not None and not refused:
        _say(_dumped(document, names, setting, say))
    warnings = len(findings) - refused
    _say([say("config_total", file=parsed.file, refused=refused, n=warnings)])
    return int(refused > 0)


def _dumped(document: Mapping[str, Any], names: Sequence[str], setting: Setting, say: Phrases) -> Iterator[str]:
    found = would_dump(document, names, setting)
    code = "config_would_dump_all" if len(found) == len(names) else "config_would_dump"
    yield say(code, k=len(found), n=len(names))
    if len(found) < len(names):
        yield from (f"  {name}" for name in found)


def _new(parsed: argparse.Namespace, mode: str) -> int:
    document = _new_acl(parsed) if parsed.acl else _new_dump(parsed, mode)
    text = json.dumps(document, indent=4)
    file = str(Path(parsed.out).absolute()) if parsed.out else f"/path/to/{'acl' if parsed.acl else 'data_dump'}.json"
    if parsed.out is None:
        _say([text, ""])
    else:
        _write(Path(parsed.out), text)
    say = phrases(parsed)
    _say(acl_lines(file, say) if parsed.acl else script_lines(file, say, mode=mode, last_step=parsed.around_step))
    return 0


def _new_dump(parsed: argparse.Namespace, mode: str) -> dict[str, Any]:
    if parsed.iteration and parsed.around_step is not None:
        raise ConfigError("give --iteration or --around-step, not both")
    if parsed.model:
        raise ConfigError("--model goes with --acl; a data_dump.json names its net with --net")
    document = new_config(
        path=parsed.path,
        net=parsed.net,
        mode=mode,
        iteration=around_step(parsed.around_step) if parsed.around_step is not None else parsed.iteration or "all",
        kernels=parsed.kernel,
        outputs_only=parsed.outputs_only,
    )
    warnings = _accept(document, setting_of(mode))
    # What the script has to do is printed with the file.
    _warn((finding for finding in warnings if finding.key.endswith(".kernels")), phrases(parsed))
    return document


def _new_acl(parsed: argparse.Namespace) -> dict[str, Any]:
    if parsed.around_step is not None:
        raise ConfigError("--around-step counts steps of MindSpore; with --acl give --iteration")
    document = new_acl(
        path=parsed.path,
        models=parsed.model,
        layers=parsed.kernel,
        steps=parsed.iteration,
        outputs_only=parsed.outputs_only,
    )
    _warn(_accept(document, Setting()), phrases(parsed))
    return document


def _warn(findings: Iterable[ConfigFinding], say: Phrases) -> None:
    # Standard output may be the content of the file.
    print_lines((f"{say('config_warning')}: {say.of(finding.message)}" for finding in findings), to_error=True)


def _accept(document: Mapping[str, Any], setting: Setting) -> Sequence[ConfigFinding]:
    """Refuse a new configuration that would be refused; return the other findings."""
    findings = check_config(document, setting)
    for finding in findings:
        if finding.level == REFUSED:
            raise ConfigError(finding.sentence)
    return findings


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}; choose another place") from error


def _read(path: Path) -> Any:
    try:
        return json.loads(read_user_file(path, _LARGEST_BYTES, want="give a dump configuration"))
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid JSON: {error!s:.200}") from error


def _operators(files: Sequence[str]) -> tuple[list[str] | None, list[str]]:
    """Return the full names of the operators, ``None`` without a file, and the possible names of their model."""
    orders, others = order_files(map(Path, files))
    names = [name for path in orders.values() for name in read_order(path)]
    model_names: list[str] = []
    for path in others:
        graph = read_model(path) if path.suffix.lower() == ".json" else read_graph(path)
        names += graph.names
        if path.suffix.lower() == ".json":
            model_names += [name for name in (path.stem, graph.model) if name]
    return (list(dict.fromkeys(names)) if files else None), model_names


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        print(terminal_lines(line))


# New dump configurations, what the script has to do for them, and explanations of their keys.

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
