"""``msdump config new|check|explain``: dump configurations, before a run is wasted on one."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_msdump.capabilities.config.check import check_config
from pytest_msdump.capabilities.config.finding import (
    REFUSED,
    ConfigFinding,
    Setting,
    checked_mode,
    setting_of,
    would_dump,
)
from pytest_msdump.capabilities.config.keys import MODES
from pytest_msdump.capabilities.config.new import acl_lines, around_step, explain, new_acl, new_config, script_lines
from pytest_msdump.cli.output import phrases, print_lines
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import terminal_lines
from pytest_msdump.core.storage.files import read_user_file
from pytest_msdump.core.text import Message, Phrases
from pytest_msdump.dumps.graphs.execution_order import order_files, read_order
from pytest_msdump.dumps.graphs.ge_model import read_model
from pytest_msdump.dumps.graphs.graph_files import read_graph

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
