"""Where the bytes of buffers and workspaces are, in both containers."""

from __future__ import annotations

import numpy as np
from dumps import dumpmade

from pytest_msdump.capabilities.ascend.header import parse_header
from pytest_msdump.core.dumps.wire import Memory


def test_buffers_then_spaces_follow_the_tensors() -> None:
    values = np.arange(6, dtype=np.float32)
    header = dumpmade.message(outputs=[dumpmade.op_output(dumpmade.FLOAT, (6,), 24)], buffers=[3, 2])
    # A workspace is field 8, its size field 3; it stands before the buffers on purpose.
    header = dumpmade.chunk(8, dumpmade.number(3, 5)) + header
    data = dumpmade.dump2(header, values.tobytes(), b"abc", b"de", b"space")
    found = parse_header(Memory(data))
    told = [(part.kind, part.slot, data[part.start : part.start + part.size]) for part in found.raw]
    assert told == [("buffer", 0, b"abc"), ("buffer", 1, b"de"), ("space", 0, b"space")]
    assert (len(found.raw), found.end) == (3, len(data))


def test_bytes_inside_the_message_are_found_there_and_a_size_alone_is_nothing() -> None:
    output = dumpmade.op_output(dumpmade.FLOAT, (1,), 0, data=b"\0\0\0\0")
    header = dumpmade.message(outputs=[output], version="1.0")
    header += dumpmade.chunk(5, dumpmade.chunk(2, b"inside")) + dumpmade.chunk(8, dumpmade.number(3, 9))
    first, second = parse_header(Memory(header)).raw
    assert header[first.start : first.start + first.size] == b"inside"
    assert (second.kind, second.size) == ("space", 0)
