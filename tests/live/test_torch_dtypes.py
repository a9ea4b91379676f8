"""Tensors of every type that PyTorch has on the CPU are read back bit for bit. Needs PyTorch."""

import re

import numpy as np
import pytest
from live.reading_back import bits_of
from live.recordings import manifest_of

from pytest_msdump import assert_close, open_dump
from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.record import Recorder

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.live,
    # PyTorch says that complex32 is experimental, and that quantized tensors will go.
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]

# Recorded as the numbers they stand for: bits without their scale would say nothing.
QUANTIZED = {"qint8", "quint8", "qint32", "quint4x2", "quint2x4"}
DTYPES = sorted({str(dtype).removeprefix("torch.") for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)})
NARROW = {"int2", "int4", "uint1", "uint2", "uint4"}
WHOLE = [name for name in DTYPES if name not in QUANTIZED]


class Gives(torch.nn.Module):
    def __init__(self, tensor):
        super().__init__()
        self.tensor = tensor

    def forward(self):
        return self.tensor


def with_bits(name, shape):
    """A tensor of any bit patterns, NaNs included."""
    dtype = getattr(torch, name)
    count = int(np.prod(shape)) * dtype.itemsize
    high = 2 if name == "bool" else 256
    bits = np.random.default_rng(5).integers(0, high, count, np.uint8)
    if not count:
        return torch.empty(shape, dtype=dtype), bits
    flat = torch.from_numpy(bits)
    return (flat.bool() if name == "bool" else flat.view(dtype)).reshape(shape), bits


def recorded(tmp_path, tensor):
    with Recorder(tmp_path).torch(Gives(tensor)) as recording:
        recording.model()
    return opened(recording)


def written(tmp_path, tensor):
    with Recorder(tmp_path).writer() as writer:
        writer.write("op", tensor)
    return opened(writer)


def opened(recording):
    (ref,) = open_dump(recording.directory).refs
    (entry,) = manifest_of(recording)["tensors"].values()
    return np.load(ref.source.path), entry.get("dtype"), open_dump(recording.directory)


# A writer is given no types of which PyTorch has bits alone, nor integers of less than a byte.
WRITTEN = [name for name in WHOLE if not re.fullmatch(r"u?int[1-7]|bits.*", name)]
CASES = [(name, shape, recorded) for name in WHOLE for shape in ((2, 3, 4), (), (0, 3))]
CASES += [(name, (2, 3, 4), written) for name in WRITTEN]


@pytest.mark.parametrize(("name", "shape", "save"), CASES)
def test_a_tensor_is_read_back_bit_for_bit(tmp_path, name, shape, save):
    tensor, bits = with_bits(name, shape)
    array, logical, dump = save(tmp_path, tensor)
    assert array.tobytes() == bits.tobytes()
    assert array.shape == shape
    assert (logical or array.dtype.name) == {"float8_e8m0fnu": "float8_e8m0"}.get(name, name)
    address = next(iter(dump))
    if logical is not None and canonical(logical) is None:
        # Types of which PyTorch has bits and no numbers, and those that share a byte.
        with pytest.raises(TensorFileError, match="a type that cannot be decoded"):
            dump.open(address)
        return
    values = dump.read(address)
    assert values.shape == shape
    # PyTorch's integers of less than a byte are a byte each, whatever it holds.
    found = values.tobytes() if name in NARROW else bits_of(dump.open(address).dtype, values)
    assert found == bits.tobytes()


COARSE = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "complex32", "float16")


@pytest.mark.parametrize("name", [name for name in COARSE if name in WHOLE])
def test_the_numbers_of_low_precision_types_are_those_of_pytorch(tmp_path, name):
    tensor, _ = with_bits(name, (300,))
    _, _, dump = recorded(tmp_path, tensor)
    expected = tensor.to(torch.complex64 if name == "complex32" else torch.float32).numpy()
    # Signalling NaNs are among the bits, and numpy 1.26 warns of them.
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(dump.read(next(iter(dump))), expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda tensor: tensor.T,
        lambda tensor: tensor[::2, 1:],
        lambda tensor: tensor.to(torch.complex64).mul(1 + 2j).conj(),
        lambda tensor: tensor.to(torch.complex64).mul(1 + 2j).conj().imag,
        # One element lies in memory as it should, and is negated still.
        lambda tensor: tensor.to(torch.complex64).mul(1 + 2j).conj().imag[1:2, 1:2],
        lambda tensor: tensor.expand(3, 4, 5),
        lambda tensor: tensor.clone().requires_grad_(),
        lambda tensor: torch.nn.Parameter(tensor),
        lambda tensor: tensor[None, None].to(memory_format=torch.channels_last),
    ],
    ids=[
        "transposed",
        "strided",
        "conjugated",
        "negated",
        "one negated",
        "expanded",
        "gradient",
        "parameter",
        "channels last",
    ],
)
def test_tensors_are_read_back_whatever_their_memory_looks_like(tmp_path, change):
    tensor = change(torch.arange(20, dtype=torch.float32).reshape(4, 5))
    array, _, _ = recorded(tmp_path, tensor)
    np.testing.assert_array_equal(array, np.array(tensor.detach().tolist()))
    assert array.dtype.name == str(tensor.dtype).removeprefix("torch.")


def test_sparse_tensors_are_recorded_dense(tmp_path):
    tensor = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse()
    np.testing.assert_array_equal(recorded(tmp_path, tensor)[0], [[0.0, 2.0], [3.0, 0.0]])


def test_quantized_tensors_are_recorded_as_the_numbers_they_stand_for(tmp_path):
    tensor = torch.quantize_per_tensor(torch.tensor([-1.0, 0.3, 2.0]), 0.25, 10, torch.quint8)
    np.testing.assert_array_equal(recorded(tmp_path, tensor)[0], np.float32([-1.0, 0.25, 2.0]))


def test_tensors_are_compared_as_they_are():
    x = torch.randn(3, 4, requires_grad=True)
    assert_close((x * 2).bfloat16().T, (x * 2).bfloat16().float().detach().numpy().T)
    assert_close(torch.eye(3).to_sparse(), np.eye(3, dtype="float32"))
    assert_close(torch.tensor([1 + 2j]).conj(), np.array([1 - 2j], "complex64"))
    assert_close(torch.ones(()).to(torch.float8_e5m2), torch.ones(()))
