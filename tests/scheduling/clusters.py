"""What befalls workers of a cluster: plugins of Dask, made within functions so that they travel whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def _plugin(happens: Any, *arguments: Any) -> Any:
    from distributed import WorkerPlugin

    class Plugin(WorkerPlugin):
        name = "befalls"

        def setup(self, worker: Any) -> None:
            self.undo = happens(worker, *arguments)

        def teardown(self, worker: Any) -> None:  # noqa: ARG002 - as Dask calls it
            self.undo()

    return Plugin()


def slow(log: Path, seconds: float) -> Any:
    """Every pair takes a while, and is logged with the process before it begins."""

    def happens(_worker: Any, log: str, seconds: float) -> Any:
        import os
        import time

        from pytest_msdump.core.compare.comparing import Comparer

        original = Comparer.compare

        def compare(comparer: Any, pair: Any) -> Any:
            with open(log, "a") as file:  # noqa: PTH123
                file.write(f"{os.getpid()}\n")
            time.sleep(seconds)
            return original(comparer, pair)

        Comparer.compare = compare  # type: ignore[method-assign]
        return lambda: setattr(Comparer, "compare", original)

    return _plugin(happens, str(log), seconds)


def reads(log: Path) -> Any:
    """Each file whose values are read from object storage is logged, with the process."""

    def happens(_worker: Any, log: str) -> Any:
        import os

        from pytest_msdump.capabilities.remote import listings

        original = listings.read_range

        def read_range(place: Any, *words: Any, **options: Any) -> Any:
            with open(log, "a") as file:  # noqa: PTH123
                file.write(f"{os.getpid()} {str(place).rpartition('/')[2]}\n")
            return original(place, *words, **options)

        listings.read_range = read_range
        return lambda: setattr(listings, "read_range", original)

    return _plugin(happens, str(log))


def deadly(name: str) -> Any:
    """One pair ends whoever compares it."""

    def happens(_worker: Any, name: str) -> Any:
        import os
        import signal

        from pytest_msdump.core.compare.comparing import Comparer

        original = Comparer.compare

        def compare(comparer: Any, pair: Any) -> Any:
            if pair.left.key.op.name == name:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(comparer, pair)

        Comparer.compare = compare  # type: ignore[method-assign]
        return lambda: setattr(Comparer, "compare", original)

    return _plugin(happens, name)


def older(which: int) -> Any:
    """Workers whose number is at least `which` have another release."""

    def happens(worker: Any, which: int) -> Any:
        if int(worker.name) < which:
            return lambda: None
        import dataclasses

        from pytest_msdump.capabilities.cache import cache as module
        from pytest_msdump.capabilities.cluster import cluster

        original = module.stamp
        found = dataclasses.replace(original(), version="0.0.9")
        module.stamp = cluster.stamp = lambda: found

        def undo() -> None:
            module.stamp = cluster.stamp = original

        return undo

    return _plugin(happens, which)


def elsewhere() -> Any:
    """What workers see at a path was written at another time."""

    def happens(_worker: Any) -> Any:
        from pytest_msdump.capabilities.cluster import cluster

        original = cluster._identity

        def identity(path: Any) -> Any:
            found = original(path)
            return (found[0], found[1] + 1) if "op1." in str(path) else found

        cluster._identity = identity
        return lambda: setattr(cluster, "_identity", original)

    return _plugin(happens)


def bare() -> Any:
    """Workers have a release that knows nothing of this."""

    def happens(_worker: Any) -> Any:
        import sys

        name = "pytest_msdump.capabilities.cache.cache"
        original = sys.modules.pop(name, None)
        sys.modules[name] = None  # type: ignore[assignment]

        def undo() -> None:
            del sys.modules[name]
            if original is not None:
                sys.modules[name] = original

        return undo

    return _plugin(happens)
