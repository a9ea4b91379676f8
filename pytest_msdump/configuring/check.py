"""What MindSpore or CANN would make of a dump configuration."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_msdump.configuring.dump_rules import RULES, Values
from pytest_msdump.configuring.finding import REFUSED, WARNING, ConfigFinding, Setting
from pytest_msdump.configuring.kernels import kernel_findings
from pytest_msdump.configuring.values import check_section
from pytest_msdump.errors import ConfigError, nearest
from pytest_msdump.facts.config_keys import ACL_KEYS, ACL_MODEL_KEYS, DUMP_KEYS

__all__ = ["check_acl", "check_config", "check_dump", "is_acl", "resolved_path"]

_SECTIONS = tuple(dict.fromkeys(key.section for key in DUMP_KEYS))
_DATA_PATH = "MS_DIAGNOSTIC_DATA_PATH"
_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")


def is_acl(document: object) -> bool:
    """Tell whether this is CANN's ``acl.json`` rather than MindSpore's ``data_dump.json``."""
    return isinstance(document, Mapping) and "dump" in document and "common_dump_settings" not in document


def check_config(
    document: object,
    setting: Setting,
    *,
    environ: Mapping[str, str] | None = None,
    names: Sequence[str] | None = None,
    model_names: Sequence[str] = (),
) -> list[ConfigFinding]:
    """Return everything there is to say of a configuration, refusals first.

    Parameters
    ----------
    document : object
        The parsed JSON, of either kind.
    setting : Setting
        Version and mode.
    environ : mapping, optional
        The environment that it would be read in.
    names : sequence of str, optional
        Full names of the operators, where a graph tells.
    model_names : sequence of str
        What ``acl.json`` may call the model that they are of: its file's name, and its own.

    Raises
    ------
    ConfigError
        It is neither kind of configuration.
    """
    known = isinstance(document, Mapping) and ({"dump", *_SECTIONS} & document.keys())
    if not isinstance(document, Mapping):
        raise ConfigError("a dump configuration is a JSON object; this is none")
    if not known:
        raise ConfigError(
            "this is no dump configuration: it has neither 'common_dump_settings' (MindSpore) nor 'dump' (acl.json)"
        )
    said = os.environ if environ is None else environ
    if is_acl(document):
        found = check_acl(document, said, names, model_names)
    else:
        found = check_dump(document, setting, said, names)
    return sorted(found, key=lambda finding: (finding.level != REFUSED,))


def check_dump(
    document: Mapping[str, Any], setting: Setting, environ: Mapping[str, str], names: Sequence[str] | None
) -> Iterator[ConfigFinding]:
    """Yield what there is to say of a ``data_dump.json``; parameters as of `check_config`."""
    if not isinstance(document.get("common_dump_settings"), Mapping):
        yield ConfigFinding(REFUSED, "common_dump_settings", "common_dump_settings is missing")
        return
    for name, section in document.items():
        if name not in _SECTIONS:
            yield ConfigFinding(
                WARNING, name, f"unknown section {name!r} is passed over in silence; {nearest(name, _SECTIONS)}"
            )
        elif not isinstance(section, Mapping):
            yield ConfigFinding(REFUSED, name, f"{name} must be an object")
        else:
            yield from check_section(section, name, DUMP_KEYS, setting)
    values = Values(document, setting)
    for rule in RULES:
        yield from rule(values)
    if isinstance(values["kernels"], list):
        yield from kernel_findings(values["kernels"], names if values["dump_mode"] == 1 else None)
    if not values["path"] and not environ.get(_DATA_PATH):
        yield ConfigFinding(
            REFUSED, "common_dump_settings.path", f"path is empty, and {_DATA_PATH} is not set: say where to dump to"
        )


def resolved_path(document: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Return where MindSpore would dump to; empty when nobody says."""
    path = document.get("common_dump_settings", {}).get("path") or ""
    if path:
        return str(path)
    base = environ.get(_DATA_PATH, "")
    return f"{base}/debug_dump" if base else ""


def check_acl(
    document: Mapping[str, Any],
    environ: Mapping[str, str],
    names: Sequence[str] | None,
    model_names: Sequence[str] = (),
) -> Iterator[ConfigFinding]:
    """Yield what there is to say of an ``acl.json``; parameters as of `check_config`."""
    dump = document["dump"]
    if not isinstance(dump, Mapping):
        yield ConfigFinding(REFUSED, "dump", "dump must be an object")
        return
    yield from check_section(dump, "dump", ACL_KEYS, Setting())
    models = dump.get("dump_list")
    debug = dump.get("dump_debug") == "on"
    if models is None and not debug and "dump_scene" not in dump:
        yield ConfigFinding(REFUSED, "dump.dump_list", "dump_list is missing; [] for single operators")
    listed = [one for one in models if isinstance(one, Mapping)] if isinstance(models, list) else []
    if debug and (listed or dump.get("dump_op_switch") == "on"):
        yield ConfigFinding(
            REFUSED, "dump.dump_debug", "dump_debug: on cannot be combined with a dump of models or operators"
        )
    elif listed and dump.get("dump_op_switch") == "on":
        yield ConfigFinding(
            WARNING, "dump.dump_op_switch", "for single operators (dump_op_switch: on) dump_list should be empty"
        )
    elif models == [] and not debug and dump.get("dump_op_switch", "off") == "off":
        yield ConfigFinding(
            REFUSED, "dump.dump_list", "dump_list is empty and dump_op_switch is off, so nothing would be dumped"
        )
    if "dump_stats" in dump and dump.get("dump_data") != "stats":
        yield ConfigFinding(WARNING, "dump.dump_stats", "dump_stats has no effect unless dump_data is stats")
    yield from _model_findings(listed, names, model_names)
    yield from _path_findings(dump.get("dump_path"), environ)


def _model_findings(
    models: Sequence[Mapping[str, Any]], names: Sequence[str] | None, model_names: Sequence[str]
) -> Iterator[ConfigFinding]:
    counts = Counter(model.get("model_name") for model in models if isinstance(model.get("model_name"), str))
    for name, count in counts.items():
        if count > 1:
            yield ConfigFinding(REFUSED, "dump.dump_list", f"model {name!r} is there {count} times; name it once")
    meant = [name for name in dict.fromkeys(model_names) if name in counts]
    if len(meant) > 1:
        both = " and ".join(map(repr, meant))
        yield ConfigFinding(REFUSED, "dump.dump_list", f"{both} are two names of one model; name it once")
    for number, model in enumerate(models):
        place = f"dump.dump_list[{number}]"
        for key in model:
            if key not in ACL_MODEL_KEYS:
                yield ConfigFinding(WARNING, place, f"unknown key {key!r}; {nearest(str(key), ACL_MODEL_KEYS)}")
        layers = model.get("layer", [])
        if not isinstance(layers, list) or not all(isinstance(layer, str) for layer in layers):
            yield ConfigFinding(REFUSED, place, "layer must be an array of operator names")
            continue
        if "layer" in model and not layers:
            yield ConfigFinding(WARNING, place, "layer is empty; leave it out to dump all operators")
        is_meant = not model_names or model.get("model_name") is None or model.get("model_name") in model_names
        yield from _layer_findings(layers, place, names if is_meant else None)
    strangers = [name for name in counts if name not in model_names]
    if model_names and strangers and not meant:
        known = " or ".join(map(repr, dict.fromkeys(model_names)))
        listed = ", ".join(map(repr, strangers))
        yield ConfigFinding(WARNING, "dump.dump_list", f"the model of the graph is called {known}, not {listed}")


def _layer_findings(layers: Sequence[object], place: str, names: Sequence[str] | None) -> Iterator[ConfigFinding]:
    for layer, count in Counter(map(str, layers)).items():
        if count > 1:
            yield ConfigFinding(WARNING, place, f"layer {layer!r} is there {count} times")
        if layer.rsplit("/", 1)[-1] == "Data":
            yield ConfigFinding(
                WARNING, place, "Data runs on no core and is never dumped; name all operators that it feeds"
            )
        elif names is not None and layer not in names:
            yield ConfigFinding(WARNING, place, f"layer {layer!r} matches no operator; {nearest(layer, names)}")


def _path_findings(path: object, environ: Mapping[str, str]) -> Iterator[ConfigFinding]:
    if not isinstance(path, str):
        return
    unset = [name for name in _VARIABLE.findall(path) if name not in environ]
    if unset:
        yield ConfigFinding(WARNING, "dump.dump_path", f"{', '.join(unset)} is not set here, so {path!r} means nothing")
        return
    folder = Path(_VARIABLE.sub(lambda match: environ[match[1]], path))
    # False of a name that no folder can have, where `Path.is_dir` raises.
    if not os.path.isdir(folder):  # noqa: PTH112
        yield ConfigFinding(WARNING, "dump.dump_path", f"{folder} is not there; make it before the program starts")
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield ConfigFinding(WARNING, "dump.dump_path", f"{folder} cannot be written to")
