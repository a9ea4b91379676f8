"""Arrays of any library: what stands for a framework's tensor here has its methods and nothing else."""

import numpy as np
import pytest

from pytest_msdump import assert_close, compare
from pytest_msdump.core.dtypes.arrays import as_array
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.record import DumpWriter, RawArray

VALUES = np.array([[1.0, -2.5], [0.0, 3.0]], "float32")


class OnDevice:
    """As PyTorch's: needs `detach`, then `cpu`, before it gives numbers."""

    def __init__(self, values, steps=("detach", "cpu")):
        self._values, self._steps = values, list(steps)

    def detach(self):
        assert self._steps.pop(0) == "detach"
        return self

    def cpu(self):
        assert self._steps.pop(0) == "cpu"
        return self

    def numpy(self):
        assert not self._steps
        return self._values


class Asnumpy:
    """As MindSpore's."""

    dtype = "Float32"

    def asnumpy(self):
        return VALUES


class Brain(Asnumpy):
    """As a release of MindSpore that brings no bfloat16 to numpy."""

    dtype = "BFloat16"

    def asnumpy(self):
        raise TypeError("bfloat16")

    def float(self):
        return Asnumpy()


class Array:
    def __array__(self, dtype=None, copy=None):
        return VALUES


class Dlpack:
    def __dlpack__(self, **options):
        return VALUES.__dlpack__(**options)

    def __dlpack_device__(self):
        return VALUES.__dlpack_device__()


class OnGpu(Dlpack):
    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, **_):
        raise BufferError("not on this device")


class Get:
    """As CuPy's."""

    def get(self):
        return VALUES


@pytest.mark.parametrize(
    "make", [lambda: OnDevice(VALUES), Asnumpy, Array, Dlpack, Get, VALUES.tolist], ids=lambda make: make.__name__
)
def test_numbers_come_out_of_every_kind_of_tensor(make):
    np.testing.assert_array_equal(as_array(make()), VALUES)
    assert_close(make(), VALUES, profile="strict" if not isinstance(make(), list) else "default")
    with pytest.raises(AssertionError):
        assert_close(make(), VALUES + 1)


def test_bfloat16_of_a_release_without_a_way_to_numpy_is_exact(tmp_path):
    assert compare(Brain(), VALUES).left.dtype == "bfloat16"
    assert compare(Brain(), VALUES).verdict.outcome == "pass"
    with DumpWriter(tmp_path / "d") as writer:
        assert np.load(writer.write("op", Brain())).tolist() == [[0x3F80, 0xC020], [0, 0x4040]]


def test_tensors_on_a_device_without_a_way_to_numpy_are_refused():
    with pytest.raises(ConfigError, match="OnGpu cannot be read as numbers"):
        as_array(OnGpu())


def test_types_that_numpy_lacks_are_judged_as_their_type():
    raw = RawArray(np.array([0x3F80, 0x4040], "uint16"), (2,), "bfloat16")
    record = compare(raw, [1.0, 3.0])
    assert (record.left.dtype, record.verdict.outcome) == ("bfloat16", "pass")
    assert compare(raw, [1.0, 4.0]).verdict.outcome == "fail"
    assert compare(RawArray(bytes([0x38, 0xC0]), (2,), "float8_e4m3fn"), [1.0, -2.0]).left.dtype == "float8_e4m3fn"


def test_a_dump_opened_is_taken_where_a_path_is(tmp_path):
    from pytest_msdump import assert_dumps_close, open_dump

    for side in ("l", "r"):
        with DumpWriter(tmp_path / side) as writer:
            writer.write("op", VALUES)
    assert_dumps_close(open_dump(tmp_path / "l"), open_dump(tmp_path / "r"))
