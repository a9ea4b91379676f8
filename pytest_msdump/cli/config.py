"""``msdump config new|check|explain``: dump configurations, before a run is wasted on one."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.errors import ConfigError
from pytest_msdump.facts.config_keys import MODES

if TYPE_CHECKING:
    from pytest_msdump.configuring.finding import Setting

__all__ = ["DESCRIPTION", "HELP", "NAME", "add_arguments", "run"]

NAME = "config"
HELP = "write, check or explain a dump configuration"
DESCRIPTION = (
    "Dump configurations: MindSpore's data_dump.json and CANN's acl.json. 'check' says what MindSpore would refuse "
    "(exit code 1) or silently pass over; 'explain' says what each key means; 'new' writes one."
)

_LARGEST_BYTES = 2**24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the three verbs."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="new|check|explain")
    for verb, text in (("check", "say what would be refused or passed over"), ("explain", "say what each key means")):
        command = verbs.add_parser(verb, help=text)
        command.add_argument("file", metavar="FILE", help="data_dump.json or acl.json")
        command.add_argument("--version", default="2.10", metavar="V", help="of MindSpore (default: 2.10)")
        command.add_argument("--mode", metavar="MODE", help=f"how the network runs: {', '.join(MODES)}")
        command.add_argument(
            "--graph", action="append", default=[], metavar="FILE", help="which operators there are: execution order"
        )
    new = verbs.add_parser("new", help="write a new data_dump.json")
    new.add_argument("--path", required=True, metavar="DIR", help="where to dump to; absolute")
    new.add_argument("--net", default="Net", metavar="NAME", help="net_name (default: Net)")
    new.add_argument("--mode", default="cpu", metavar="MODE", help=f"how it runs: {', '.join(MODES)} (default: cpu)")
    new.add_argument("--iteration", metavar="SPEC", help='iterations, counted from 0, e.g. "0|5-8" (default: all)')
    new.add_argument("--around-step", type=int, metavar="N", help="the step, counted from 1, that goes wrong")
    new.add_argument("--kernel", action="append", default=[], metavar="NAME", help="an operator; repeatable")
    new.add_argument("--outputs-only", action="store_true", help="leave inputs out")
    new.add_argument("--out", metavar="FILE", help="the file to write (default: standard output)")


def run(parsed: argparse.Namespace) -> int:
    """Do what was asked; return the exit code."""
    from pytest_msdump.configuring.finding import Setting, checked_mode, parse_version

    if parsed.verb == "new":
        return _new(parsed, str(checked_mode(parsed.mode)))
    setting = Setting(parse_version(parsed.version), checked_mode(parsed.mode))
    document = _read(Path(parsed.file))
    return _explain(document, setting) if parsed.verb == "explain" else _check(parsed, document, setting)


def _check(parsed: argparse.Namespace, document: Any, setting: Setting) -> int:
    from pytest_msdump.configuring.check import check_config
    from pytest_msdump.configuring.finding import REFUSED

    names = _operators(parsed.graph)
    findings = check_config(document, setting, names=names)
    _say(f"{finding.level}: {finding.key}: {finding.sentence}" for finding in findings)
    refused = sum(finding.level == REFUSED for finding in findings)
    if names is not None and isinstance(document, dict):
        _say(_dumped(document, names))
    _say([f"{parsed.file}: {refused} refused, {len(findings) - refused} warnings"])
    return int(refused > 0)


def _dumped(document: dict[str, Any], names: Sequence[str]) -> Iterator[str]:
    """Which operators of the graph would be dumped."""
    from pytest_msdump.configuring.kernels import chosen

    common = document.get("common_dump_settings", {})
    kernels = common.get("kernels") if isinstance(common, dict) else None
    if not isinstance(kernels, list) or common.get("dump_mode") != 1:
        return
    found = dict.fromkeys(name for entry in kernels if isinstance(entry, str) for name in chosen(entry, names))
    yield f"would dump {len(found)} of {len(names)} operators"
    yield from (f"  {name}" for name in found)


def _explain(document: Any, setting: Setting) -> int:
    from pytest_msdump.configuring.check import check_config
    from pytest_msdump.configuring.explain import explain

    check_config(document, setting)
    _say(f"{key} = {value}\n    {meaning}" for key, value, meaning in explain(document, setting))
    return 0


def _new(parsed: argparse.Namespace, mode: str) -> int:
    from pytest_msdump.configuring.check import check_config
    from pytest_msdump.configuring.finding import REFUSED, Setting
    from pytest_msdump.configuring.new import around_step, new_config, script_lines

    if parsed.iteration and parsed.around_step:
        raise ConfigError("give --iteration or --around-step, not both")
    iteration = around_step(parsed.around_step) if parsed.around_step is not None else parsed.iteration or "all"
    config = new_config(
        path=parsed.path,
        net=parsed.net,
        mode=mode,
        iteration=iteration,
        kernels=parsed.kernel,
        outputs_only=parsed.outputs_only,
    )
    wrong = [finding for finding in check_config(config, Setting(mode=mode)) if finding.level == REFUSED]
    if wrong:
        raise ConfigError(wrong[0].sentence)
    text = json.dumps(config, indent=4)
    file = parsed.out or "/path/to/data_dump.json"
    if parsed.out is None:
        _say([text, ""])
    else:
        _write(Path(parsed.out), text)
    _say(script_lines(str(Path(file).absolute()), mode=mode, last_step=parsed.around_step))
    return 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}; choose another place") from error


def _read(path: Path) -> Any:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ConfigError(f"{path}: larger than 16 MiB; is it a dump configuration?")
        return json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON that can be read: {error!s:.200}") from error


def _operators(files: Sequence[str]) -> list[str] | None:
    """Full names of the operators, out of execution orders; ``None`` where no file was given."""
    from pytest_msdump.graphs.execution_order import read_order

    if not files:
        return None
    return [name for file in files for name in read_order(Path(file))]


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)  # noqa: T201 - what the command is for
