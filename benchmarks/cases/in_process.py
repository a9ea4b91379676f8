"""Comparisons that are functions of a library: the work alone is timed, loading and imports are not.

python in_process.py reads|allclose|torch|polygraphy LEFT RIGHT
python in_process.py numpy_load|torch_file ARRAY FILE
python in_process.py ours LEFT RIGHT OPTION …    our command line, which has compared other files once before
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Neighbours of few bits are 0.8 % apart.
_RELATIVE = 0.05


def main() -> int:
    """Load, compare, print what the comparison took."""
    left, right = Path(sys.argv[2]), Path(sys.argv[3])
    work = _ours(left, right, sys.argv[4:]) if sys.argv[1] == "ours" else WORKS[sys.argv[1]](left, right)
    began, began_cpu = time.perf_counter(), time.process_time()
    work()
    took = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - began_cpu}
    print(json.dumps(took))
    return 0


def _reads(*paths: Path) -> Callable[[], None]:
    """Nothing but reading both files."""

    def work() -> None:
        for path in paths:
            with path.open("rb") as file:
                while file.read(1 << 20):
                    pass

    return work


def _ours(left: Path, right: Path, options: list[str]) -> Callable[[], None]:
    """Our command, every module of it loaded; the same files' neighbours in the folder ``one`` are of one element."""
    from pytest_msdump.cli import main as msdump

    def compare(*paths: Path) -> None:
        code = msdump(["compare", *map(str, paths), *options])
        assert code == 0, code

    compare(*(path.parent / "one" / path.name for path in (left, right)))
    return lambda: compare(left, right)


def _allclose(left: Path, right: Path) -> Callable[[], None]:
    import numpy as np

    ours, theirs = np.load(left), np.load(right)
    return lambda: np.testing.assert_allclose(ours, theirs, rtol=_RELATIVE)


def _torch(left: Path, right: Path) -> Callable[[], None]:
    import torch

    ours, theirs = _tensor(left), _tensor(right)
    return lambda: torch.testing.assert_close(ours, theirs, rtol=_RELATIVE, atol=0)


def _tensor(path: Path) -> Any:
    import numpy as np
    import torch

    try:
        return torch.from_numpy(np.load(path))
    except ValueError:
        # bfloat16: the header's length stands in bytes 8 and 9.
        with path.open("rb") as file:
            header = 10 + int.from_bytes(file.read(10)[8:], "little")
        return torch.from_numpy(np.fromfile(path, np.int16, offset=header)).view(torch.bfloat16)


def _polygraphy(left: Path, right: Path) -> Callable[[], None]:
    import numpy as np
    from polygraphy.comparator import CompareFunc, IterationResult
    from polygraphy.logger import G_LOGGER

    G_LOGGER.module_severity = G_LOGGER.CRITICAL
    results = [IterationResult({"x": np.load(path)}) for path in (left, right)]
    compare = CompareFunc.simple(rtol=_RELATIVE, atol=0)

    def work() -> None:
        assert all(bool(each) for each in compare(*results).values())

    return work


def _numpy_load(array: Path, _: Path) -> Callable[[], None]:
    import numpy as np

    def work() -> None:
        assert np.load(array).size

    return work


def _torch_file(array: Path, file: Path) -> Callable[[], None]:
    """The whole tensor in one piece, which is held to numpy's once before."""
    import numpy as np

    from pytest_msdump.capabilities.tensor_files.torch_file import open_only_tensor

    def read() -> Any:
        view = open_only_tensor(file)
        try:
            return view.read(0, view.size)
        finally:
            view.close()

    assert np.array_equal(read(), np.load(array))

    def work() -> None:
        assert read().size

    return work


WORKS: dict[str, Callable[[Path, Path], Callable[[], None]]] = {
    "reads": _reads,
    "allclose": _allclose,
    "torch": _torch,
    "numpy_load": _numpy_load,
    "torch_file": _torch_file,
    "polygraphy": _polygraphy,
}


if __name__ == "__main__":
    sys.exit(main())
