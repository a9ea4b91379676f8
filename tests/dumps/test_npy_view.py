"""A tensor file as a view: numpy.save is the oracle for what it holds, and nothing else may be let in."""

import gc
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from dumps.reading import open_files
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.core.dumps.npy import open_npy
from pytest_msdump.core.errors import TensorFileError, TensorShapeError
from pytest_msdump.core.model.tensor import TensorSpec

BFLOAT16 = Path(__file__).parent.parent / "data" / "bfloat16"
CODES = "?bhiqBHIQefdFD"


def values(view, block_elements=5):
    blocks = [block.copy() for block in view.blocks(block_elements)]
    return np.concatenate([view.read(0, 0), *blocks])


def raw_npy(descr, shape, payload):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + payload


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("fortran", [False, True])
def test_every_plain_dtype_reads_as_numpy_loads_it(tmp_path, code, order, fortran):
    array = (np.arange(30) % 7 - 2).astype(np.dtype(code).newbyteorder(order)).reshape(2, 3, 5)
    path = tmp_path / "a.npy"
    np.save(path, np.array(array, order="F" if fortran else "C"))
    with open_npy(path, TensorSpec()) as view:
        got = values(view)
        assert view.shape == (2, 3, 5)
        assert view.dtype == array.dtype.name
        assert view.size == 30
    assert got.dtype == array.dtype.newbyteorder("=")
    assert got.tobytes() == array.astype(got.dtype).tobytes()


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_order_permutation_and_block_size_never_change_the_values(tmp_path_factory, data):
    shape = tuple(data.draw(st.lists(st.integers(0, 6), max_size=5)))
    array = np.arange(np.prod(shape, dtype=int), dtype=data.draw(st.sampled_from(["<f4", ">i2", "<c8"]))).reshape(shape)
    path = tmp_path_factory.mktemp("view") / "a.npy"
    np.save(path, np.array(array, order=data.draw(st.sampled_from("CF"))))
    first = tuple(data.draw(st.permutations(range(len(shape)))))
    second = tuple(data.draw(st.permutations(range(len(shape)))))
    block_bytes = data.draw(st.sampled_from([1, 20, 64, 300, 2**24]))
    with open_npy(path, TensorSpec(), block_bytes=block_bytes) as view:
        turned = view.permuted(first).permuted(second)
        oracle = array.transpose(first).transpose(second)
        assert turned.shape == oracle.shape
        assert np.array_equal(values(turned, data.draw(st.integers(1, 50))), oracle.ravel())
        assert np.array_equal(values(view), array.ravel())


def test_negative_axes_count_from_the_end_and_wrong_ones_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 3, 4)))
    with open_npy(tmp_path / "a.npy", TensorSpec()) as view:
        assert view.permuted((0, -1, 1)).shape == (2, 4, 3)
        for axes in [(0, 1), (0, 1, 1), (0, 1, 3), (0, 1, -4), (0, 1, 2, 3)]:
            with pytest.raises(TensorShapeError, match="do not permute its stored shape"):
                view.permuted(axes)


# MindSpore 2.10's own files: 1.5, 0.0 and -2.25 as bfloat16, and the same as float32.
@pytest.mark.parametrize("path", sorted(BFLOAT16.glob("*.npy")), ids=lambda path: path.name[:30] + path.name[-30:])
def test_files_that_mindspore_wrote_are_read(path):
    said = path.name.split(".")[-2]
    with open_npy(path, TensorSpec(dtype=said)) as view:
        assert view.dtype == said.lower()
        assert view.read(0, 3).tolist() == [1.5, 0.0, -2.25]
        assert view.read(0, 3).dtype == np.float32


def test_bfloat16_files_are_among_them():
    assert sum(".BFloat16." in path.name for path in BFLOAT16.glob("*.npy")) == 2


@pytest.mark.parametrize(
    ("descr", "claimed"),
    [
        *[(descr, name) for descr in ("<E2", "<T2") for name in (None, "BFloat16", "bf16")],
        *[(descr, "bfloat16") for descr in ("|V2", "<V2", "<u2")],
    ],
)
def test_bfloat16_is_known_in_every_two_byte_form(tmp_path, descr, claimed):
    path = tmp_path / "b.npy"
    path.write_bytes(raw_npy(descr, (2, 2), bytes.fromhex("803f 2040 7fc0 ff7f".replace(" ", ""))))
    with open_npy(path, TensorSpec(dtype=claimed)) as view:
        assert view.dtype == "bfloat16"
        got = view.permuted((1, 0)).read(0, 4)
    assert got[:3].tolist() == [1.0, -3.984375, 2.5]
    assert got.tobytes()[12:] == b"\0\0\xff\x7f"


def test_big_endian_bfloat16_is_read_big_endian(tmp_path):
    path = tmp_path / "b.npy"
    path.write_bytes(raw_npy(">E2", (2,), bytes.fromhex("3f804020")))
    with open_npy(path, TensorSpec()) as view:
        assert view.read(0, 2).tolist() == [1.0, 2.5]


def test_float32_below_a_header_of_float16_is_read_where_a_dump_format_has_it(tmp_path):
    """MindSpore 2.10 on CPU writes what float16 cells computed in float32; see tests/live/nets/half_cells.py."""
    path, values = tmp_path / "b.npy", np.array([[1.0, 1 / 3, -2.5]], np.float32)
    path.write_bytes(raw_npy("<f2", (1, 3), values.tobytes()))
    with pytest.raises(TensorFileError, match="6 bytes too many"):
        open_npy(path, TensorSpec("float16"))
    with open_npy(path, TensorSpec("float16"), of_mindspore=True) as view:
        assert (view.dtype, view.shape, view.read(0, 3).tolist()) == ("float32", (1, 3), values[0].tolist())
    for descr, count in (("<f2", 2), ("<f2", 4), ("<i2", 3), ("<f4", 6)):
        path.write_bytes(raw_npy(descr, (1, count), values.tobytes()[:-1] if descr == "<f4" else values.tobytes()))
        with pytest.raises(TensorFileError):
            open_npy(path, TensorSpec(), of_mindspore=True)


@pytest.fixture
def alarm():
    """Turn a hanging call into an error."""

    def hung(*_):
        raise AssertionError("open_npy hangs")

    previous = signal.signal(signal.SIGALRM, hung)
    signal.setitimer(signal.ITIMER_REAL, 5)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, previous)


@pytest.mark.usefixtures("alarm")
def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "loop.npy").symlink_to("loop.npy")
    (tmp_path / "nowhere.npy").symlink_to("gone")
    sentences = {
        "pipe.npy": "it is a pipe, not a file",
        "folder.npy": "is a directory, not a file",
        "loop.npy": "symbolic links go round",
        "nowhere.npy": "No such file or directory",
        "a\0b.npy": "cannot be opened",
    }
    for name, sentence in sentences.items():
        with pytest.raises(TensorFileError, match=sentence):
            open_npy(tmp_path / name, TensorSpec())
    with pytest.raises(TensorFileError, match="it is a device"):
        open_npy(Path("/dev/null"), TensorSpec())


def test_unreadable_file_says_so(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(TensorFileError, match=r"a\.npy: cannot be opened: Permission denied; make it readable"):
        open_npy(tmp_path / "a.npy", TensorSpec())


def test_no_descriptor_is_left_open(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    (tmp_path / "bad.npy").write_bytes(b"bad")
    gc.collect()
    before = open_files()
    for name in ("bad.npy", "a.npy"):
        claimed = TensorSpec(dtype="float16")
        with pytest.raises(TensorFileError) as kept:
            open_npy(tmp_path / name, claimed)
        # A kept error keeps its frames, and with them whatever these forgot to close.
        assert kept.value.__traceback__ is not None
        assert open_files() == before
    with pytest.raises(TensorFileError):
        open_npy(tmp_path, TensorSpec())
    view = open_npy(tmp_path / "a.npy", TensorSpec())
    turned = view.permuted((0,))
    assert open_files() == before + 1
    turned.close()
    turned.close()
    assert open_files() == before
    with pytest.raises(ValueError, match=r"read after close\(\)"):
        view.read(0, 1)
    # A view that nobody closes closes itself, without a warning into the user's run.
    forgotten = open_npy(tmp_path / "a.npy", TensorSpec())
    assert open_files() == before + 1
    del forgotten
    gc.collect()
    assert open_files() == before


def test_a_small_file_is_read_once(tmp_path, monkeypatch):
    values = np.arange(12, dtype="f4").reshape(3, 4)
    np.save(tmp_path / "a.npy", values)
    asked, preadv = [], os.preadv
    monkeypatch.setattr(os, "preadv", lambda *what: asked.append(what[-1]) or preadv(*what))
    with open_npy(tmp_path / "a.npy", TensorSpec()) as view:
        np.testing.assert_array_equal(view.read(0, 12), values.ravel())
        np.testing.assert_array_equal(view.read(5, 7), values.ravel()[5:7])
    assert asked == [0]
