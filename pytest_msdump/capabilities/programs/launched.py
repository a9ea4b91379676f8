"""Makes the call in CALL.json of `programs.program`, under any interpreter: imports nothing of this package."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any


def main(file: str) -> None:
    """Import the module, find the function and call it."""
    call = json.loads(Path(file).read_text("utf-8"))
    # The folder of this file would hide modules of the user's that have the names of its own.
    sys.path[:] = [entry for entry in sys.path if Path(entry).absolute() != Path(__file__).absolute().parent]
    sys.path += [entry for entry in call["path"] if entry not in sys.path]
    function: Any = _module(call)
    for name in call["name"].split("."):
        function = getattr(function, name)
    sys.argv = [call["file"]]
    function(*map(_read, call["args"]), **{name: _read(value) for name, value in call["kwargs"].items()})


def _module(call: dict[str, Any]) -> Any:
    if call["root"]:
        sys.path.insert(0, call["root"])
        return importlib.import_module(call["module"])
    # Its own name is taken when it was `__main__`.
    name = "msdump_target" if call["module"] == "__main__" else call["module"].rpartition(".")[2]
    spec = importlib.util.spec_from_file_location(name, call["file"])
    if spec is None or spec.loader is None:
        raise SystemExit(f"{call['file']}: no Python module")
    sys.path.insert(0, str(Path(call["file"]).parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _read(value: list[Any]) -> Any:
    kind, content = value
    if kind == "json":
        return content
    import numpy as np

    return np.load(content)


if __name__ == "__main__":
    main(sys.argv[1])
