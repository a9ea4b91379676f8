"""Parsers that do what none may do, for the tests of the fuzzer; its workers import them by this module's name."""

from __future__ import annotations

import collections
import os
import pickle
import time
from pathlib import Path

from campaign.parsers import Seed

from pytest_msdump.core.errors import ConfigError


def seeds() -> list[Seed]:
    return [Seed("a.txt", b"a = 1\nb = 2\n")]


def crash(_: Path) -> None:
    os._exit(3)


def fail(_: Path) -> None:
    raise KeyError("a")


def refuse_well(_: Path) -> None:
    raise ConfigError("no")


def refuse_at_length(_: Path) -> None:
    raise ConfigError("no" * 6000)


def compute(_: Path) -> None:
    while True:
        pass


def wait(_: Path) -> None:
    time.sleep(1000)


def take_memory(_: Path) -> None:
    bytearray(400 * 2**20)


def take_some_memory(_: Path) -> None:
    bytearray(100 * 2**20)


def unpickle(_: Path) -> None:
    pickle.loads(pickle.dumps(collections.Counter()))
