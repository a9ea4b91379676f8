"""The workers of a Dask cluster: which of them can compare, and why the others cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.errors import ConfigError
from pytest_msdump.scheduling.program_version import Stamp, differences
from pytest_msdump.scheduling.serial import Workers

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Crew", "connected"]

_CONNECT_SECONDS = 10
_SHOWN = 3


def connected(address: str) -> Client:
    """Connect to a scheduler.

    Parameters
    ----------
    address : str
        ``tcp://host:port``, as Dask spells addresses, or the path of a scheduler file.

    Raises
    ------
    ConfigError
        Dask is not installed, or no scheduler answers.
    """
    from concurrent.futures import wait

    try:
        from distributed import Client
    except ImportError as error:
        raise ConfigError(
            f"--scheduler needs Dask distributed ({error}); install it: pip install 'pytest-msdump[distributed]'"
        ) from None
    is_file = "://" not in address and Path(address).is_file()
    if not is_file and ":" not in address:
        raise ConfigError(f"--scheduler: {address!r} is neither an address nor a scheduler file; write tcp://HOST:8786")
    where: dict[str, str] = {"scheduler_file": address} if is_file else {"address": address}

    def client() -> Client:
        return Client(**where, timeout=_CONNECT_SECONDS, set_as_default=False, name="msdump")

    # Dask waits without end for who takes the connection and says nothing, and so nobody waits for this thread.
    with closing(Workers(1)) as helper:
        attempt = helper.submit(client)
    wait([attempt], timeout=1.5 * _CONNECT_SECONDS)
    if not attempt.done():
        raise ConfigError(
            f"--scheduler {address}: what answers there is no scheduler, or an overloaded one; "
            "is it the dashboard's port? The scheduler's own is 8786 by default"
        )
    try:
        return attempt.result()
    except Exception as error:
        # Each transport has errors of its own for what cannot be reached, or cannot be an address.
        raise ConfigError(
            f"--scheduler {address}: no scheduler answers there ({_line(error)}); start one with 'dask scheduler'"
        ) from None


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


class Crew:
    """The workers of a cluster, asked once each what program they have and whether they see the dumps.

    Parameters
    ----------
    client : Client
        The cluster.
    wanted : Stamp
        The program that is needed.
    folders : tuple of Path
        What every worker has to see.
    """

    def __init__(self, client: Client, wanted: Stamp, folders: tuple[Path, ...]) -> None:
        self._client = client
        self._wanted = wanted
        self._ask = _question(tuple(map(str, folders)))
        self._problems: dict[str, str] = {}
        self._threads: dict[str, int] = {}

    def refresh(self) -> None:
        """Look who is there, and ask those that have come. Nobody is there while the scheduler does not answer."""
        try:
            self._threads = dict(self._client.nthreads())
            new = [address for address in self._threads if address not in self._problems]
            answers = self._client.run(self._ask, workers=new, on_error="return") if new else {}
        except Exception:
            # A client that has given its scheduler up raises other errors than one that looks for it.
            self._threads = {}
            return
        self._problems.update({address: self._problem(answers.get(address)) for address in new})

    @property
    def able(self) -> dict[str, int]:
        """Address → threads, of the workers that can compare."""
        return {address: threads for address, threads in self._threads.items() if not self._problems.get(address)}

    @property
    def unable(self) -> dict[str, str]:
        """Address → why not, of the others."""
        return {address: problem for address in self._threads if (problem := self._problems.get(address, ""))}

    def sentence(self) -> str:
        """Say who cannot compare, and why."""
        unable = self.unable
        named = "; ".join(f"{address}: {why}" for address, why in list(unable.items())[:_SHOWN])
        more = f"; and {len(unable) - _SHOWN} more" if len(unable) > _SHOWN else ""
        return named + more

    def _problem(self, answer: Any) -> str:
        """Why a worker cannot compare; empty where it can."""
        if isinstance(answer, BaseException):
            return _line(answer)
        if not isinstance(answer, Mapping):
            return "it went away"
        if answer.get("problem"):
            return str(answer["problem"])
        unlike = differences(Stamp(*answer["stamp"]), self._wanted)
        return f"it has {unlike}" if unlike else ""


def _question(folders: tuple[str, ...]) -> Callable[[], dict[str, Any]]:
    """What each worker is asked. A function within one travels whole: a worker may not have this package."""

    def ask() -> dict[str, Any]:
        import dataclasses
        import importlib
        import importlib.metadata
        import os

        try:
            stamp = importlib.import_module("pytest_msdump.scheduling.program_version").stamp()
        except Exception as error:
            try:
                found = f"has pytest-msdump {importlib.metadata.version('pytest-msdump')}, which cannot do this"
            except importlib.metadata.PackageNotFoundError:
                found = "has no pytest-msdump"
            return {"problem": f"it {found} ({type(error).__name__}: {error})"}
        for folder in folders:
            if not os.path.exists(folder):  # noqa: PTH110 - as little as possible is to be there
                return {"problem": f"it does not see {folder}"}
        return {"stamp": dataclasses.astuple(stamp)}

    return ask
