"""What copies of a process send to it through pipes: pickled results, each after its length."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

__all__ = ["Arriving", "Leaving"]

_LENGTH_BYTES = 8
_PIPE_BYTES = 1 << 20


class Leaving:
    """Sends messages without waiting for the original, which may be in the midst of a large tensor."""

    def __init__(self, end: int) -> None:
        self._end = end
        self._waiting = bytearray()
        os.set_blocking(end, False)

    def send(self, message: bytes) -> None:
        """Send what the pipe takes now, and keep the rest for later."""
        self._waiting += len(message).to_bytes(_LENGTH_BYTES, "little") + message
        with suppress(BlockingIOError):
            self._write()

    def finish(self) -> None:
        """Wait until everything is sent."""
        os.set_blocking(self._end, True)
        self._write()

    def _write(self) -> None:
        while self._waiting:
            del self._waiting[: os.write(self._end, self._waiting)]


class _Message:
    """What has arrived of a message, straight where it is to be: its length, and then as much as that says."""

    def __init__(self) -> None:
        self._content, self._arrived, self._is_length = bytearray(_LENGTH_BYTES), 0, True

    @property
    def missing(self) -> memoryview:
        """Where the rest is to be."""
        return memoryview(self._content)[self._arrived :]

    def whole(self, count: int) -> bytearray | None:
        """Return the message, if the bytes that came now, `count` of them, were its last; then the next begins."""
        self._arrived += count
        if self._arrived < len(self._content):
            return None
        content, was_length = self._content, self._is_length
        size = int.from_bytes(content, "little") if was_length else _LENGTH_BYTES
        self._content, self._arrived, self._is_length = bytearray(size), 0, not was_length
        return None if was_length else content


class Arriving:
    """What copies send, by the end of the pipe that it comes from."""

    def __init__(self) -> None:
        self._found: dict[int, _Message] = {}
        self._poll = select.poll()

    @property
    def is_open(self) -> bool:
        """Whether any copy may send more."""
        return bool(self._found)

    def opened(self) -> int:
        """Open a pipe and return the end for a copy."""
        here, there = os.pipe()
        os.set_blocking(here, False)
        with suppress(OSError):
            _widen(here)
        self._found[here] = _Message()
        self._poll.register(here, select.POLLIN)
        return there

    def taken(self, wait_milliseconds: int | None) -> dict[int, Any]:
        """Return what has arrived; wait for something where nothing has, for ever with ``None``."""
        from pickle import loads

        results: dict[int, Any] = {}
        for end, _ in self._poll.poll(wait_milliseconds):
            for message in self._messages(end):
                results.update(loads(message))  # noqa: S301 - of a copy of this process
        return results

    def _messages(self, end: int) -> Iterator[bytearray]:
        """Yield the messages that are there as a whole by now."""
        found = self._found[end]
        with suppress(BlockingIOError):
            while count := os.readv(end, [found.missing]):
                if (message := found.whole(count)) is not None:
                    yield message
            # It has ended, in the midst of a message perhaps.
            self._closed(end)

    def close(self) -> None:
        """Take nothing more."""
        for end in list(self._found):
            self._closed(end)

    def _closed(self, end: int) -> None:
        self._poll.unregister(end)
        del self._found[end]
        os.close(end)


def _widen(end: int) -> None:
    """Let a pipe hold as much as anybody may have in one."""
    import fcntl

    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
