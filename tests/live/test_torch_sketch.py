"""Sketches of PyTorch's tensors: each way to compute one gives the same numbers. Needs PyTorch."""

import hashlib
import math

import numpy as np
import pytest
from kernels import EACH

from pytest_msdump import assert_dumps_close, open_dump
from pytest_msdump.capabilities.record import torch as record_torch
from pytest_msdump.capabilities.record import torch_tensors
from pytest_msdump.capabilities.record.sketching import decoded_blocks
from pytest_msdump.capabilities.record.torch_tensors import array_of, sketch_by_torch, sketch_of_tensor
from pytest_msdump.capabilities.statistics.count_sketch import SEEDS, sketch_blocks
from pytest_msdump.core.dtypes.arrays import array_to_save

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.live,
    # PyTorch says that complex32 is experimental, and that quantized tensors will go.
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")
M = 1024
CHUNK = 16 * M
SIZES = [0, 1, 31, M - 1, M, M + 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 77, 64 * CHUNK - 5, 65 * CHUNK + M + 3]


def noise(size, dtype="float32"):
    drawn = torch.from_numpy(np.random.default_rng(size).standard_normal(size) * 40)
    return (drawn > 0) if dtype == "bool" else drawn.to(getattr(torch, dtype))


def by_arrays(tensor, m=M, block=None):
    """The sketch by `sketch_blocks` of an array, in blocks of this size."""
    values, logical = array_to_save(array_of(tensor))
    blocks, dtype = decoded_blocks(values, logical)
    whole = np.concatenate([np.zeros(0, values.dtype if logical is None else np.float32), *blocks])
    step = block or max(whole.size, 1)
    shape = tuple(tensor.shape)
    return sketch_blocks((whole[at : at + step] for at in range(0, whole.size, step)), dtype, shape, buckets=m)


def agree(one, other):
    (statistics, sketch), (expected, right) = one, other
    scale = max(right.norm, 1e-300)
    assert np.abs(sketch.buckets - right.buckets).max() <= 1e-12 * scale
    assert sketch.norm == pytest.approx(right.norm, rel=1e-13)
    assert (sketch.slices is None) == (right.slices is None)
    if sketch.slices is not None:
        np.testing.assert_allclose(sketch.slices, right.slices, rtol=1e-12)
    assert statistics.keys() == expected.keys()
    for name in statistics:
        if name in ("mean", "l2_norm") and expected[name] is not None:
            assert statistics[name] == pytest.approx(expected[name], rel=1e-12, abs=1e-12 * scale, nan_ok=True)
        else:
            assert (statistics[name], type(statistics[name])) == (expected[name], type(expected[name])), name


@pytest.mark.parametrize("kernel", EACH)
@pytest.mark.parametrize("size", SIZES)
def test_operations_of_pytorch_and_arrays_in_any_blocks_agree(kernel, size, monkeypatch):
    monkeypatch.setenv("MSDUMP_KERNEL", kernel)
    tensor = noise(size)
    expected = by_arrays(tensor)
    agree(sketch_by_torch(tensor), expected)
    agree(sketch_of_tensor(tensor), expected)
    for block in (max(size // 3, 1), CHUNK, 100_003):
        agree(by_arrays(tensor, block=block), expected)


def test_they_agree_where_signs_begin_anew_for_many_buckets():
    tensor = noise(65 * 16 * 4096 + 5)
    agree(sketch_by_torch(tensor, buckets=4096), by_arrays(tensor, 4096))


@pytest.mark.parametrize("kernel", EACH)
@pytest.mark.parametrize("m", sorted(SEEDS))
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "complex64", "complex128", "float8_e4m3fn"])
def test_they_agree_for_every_type(kernel, m, dtype, monkeypatch):
    monkeypatch.setenv("MSDUMP_KERNEL", kernel)
    tensor = noise(40_000) * (1 + 2j) if dtype.startswith("complex") else noise(40_000, dtype)
    tensor = tensor.to(getattr(torch, dtype))
    agree(sketch_by_torch(tensor, buckets=m), by_arrays(tensor, m))


@pytest.mark.parametrize("kernel", EACH)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_statistics_are_those_that_float64_gives(kernel, dtype, monkeypatch):
    monkeypatch.setenv("MSDUMP_KERNEL", kernel)
    tensor = noise(40_001, dtype)
    doubles = tensor.to(torch.float64).numpy()
    for statistics, sketch in (sketch_by_torch(tensor), sketch_of_tensor(tensor)):
        assert (statistics["minimum"], statistics["maximum"]) == (doubles.min(), doubles.max())
        assert statistics["mean"] == pytest.approx(math.fsum(doubles) / doubles.size, rel=1e-12, abs=1e-13)
        assert statistics["l2_norm"] == sketch.norm == pytest.approx(math.sqrt(math.fsum(doubles**2)), rel=1e-13)
        assert (statistics["count"], statistics["zero_count"]) == (doubles.size, np.count_nonzero(doubles == 0))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", EACH)
def test_what_is_not_finite_is_counted_and_a_zero_in_the_sketch(kernel, dtype, monkeypatch):
    monkeypatch.setenv("MSDUMP_KERNEL", kernel)
    tensor, places = noise(20_000, dtype), [0, 5, 16_383, 16_384, 19_999]
    tensor[places] = torch.tensor([math.nan, math.inf, -math.inf, math.nan, math.inf], dtype=tensor.dtype)
    clean = tensor.clone()
    clean[places] = 0.0
    for statistics, sketch in (sketch_by_torch(tensor), sketch_of_tensor(tensor)):
        found = [statistics[f"{name}_count"] for name in ("nan", "positive_inf", "negative_inf", "zero")]
        assert found == [2, 2, 1, int((clean == 0).sum()) - 5]
        assert math.isnan(statistics["l2_norm"])
        assert (statistics["minimum"], statistics["maximum"]) == (clean.min().item(), clean.max().item())
        assert statistics["mean"] == pytest.approx(clean.double().sum().item() / 19_995, rel=1e-12)
        assert np.abs(sketch.buckets - by_arrays(clean)[1].buckets).max() <= 1e-12 * sketch.norm
    assert sketch_by_torch(tensor.reshape(100, 200))[1].slices is None
    assert sketch_by_torch(clean.reshape(100, 200))[1].slices is not None
    nothing = torch.full((5,), math.nan, dtype=tensor.dtype)
    agree(sketch_by_torch(nothing), by_arrays(nothing))


@pytest.mark.parametrize(
    "change",
    [
        lambda tensor: tensor.T,
        lambda tensor: tensor[::2, 1:],
        lambda tensor: tensor[:, None].expand(150, 3, 200),
        lambda tensor: (tensor * (1 + 2j)).conj(),
        lambda tensor: (tensor * (1 + 2j)).conj().imag,
        lambda tensor: torch.nn.Parameter(tensor),
        lambda tensor: tensor.to_sparse(),
        lambda tensor: torch.quantize_per_tensor(tensor, 0.25, 10, torch.quint8),
        lambda tensor: tensor[None, :, :100, None].to(memory_format=torch.channels_last),
    ],
    ids=[
        "transposed",
        "strided",
        "expanded",
        "conjugated",
        "negated",
        "parameter",
        "sparse",
        "quantized",
        "channels last",
    ],
)
def test_elements_are_in_c_order_whatever_the_memory_looks_like(change):
    tensor = change(noise(30_000).reshape(150, 200))
    agree(sketch_by_torch(tensor), by_arrays(tensor))


def test_numbers_that_float64_cannot_square_or_hold_are_right():
    agree(sketch_by_torch(noise(5000, "float64") * 1e300), by_arrays(noise(5000, "float64") * 1e300))
    agree(sketch_by_torch(noise(5000, "float64") * 1e-200), by_arrays(noise(5000, "float64") * 1e-200))
    wide = torch.tensor([2**63 - 1, -(2**63), 2**53 + 1])
    assert [sketch_by_torch(wide)[0][name] for name in ("maximum", "minimum")] == [2**63 - 1, -(2**63)]


@pytest.mark.parametrize(
    ("shape", "together"), [((40, 1000), 4), ((4, 64, 56, 56), 1), ((3, 300, 7, 7), 2), ((8, 600_000), 2350)]
)
def test_norms_of_slices_are_those_of_the_tensor(shape, together):
    tensor = noise(math.prod(shape)).reshape(shape)
    squares = (tensor.numpy().astype("f8") ** 2).sum(axis=tuple(axis for axis in range(len(shape)) if axis != 1))
    expected = [math.sqrt(squares[at : at + together].sum()) for at in range(0, squares.size, together)]
    for _, sketch in (sketch_by_torch(tensor), sketch_of_tensor(tensor)):
        np.testing.assert_allclose(sketch.slices, expected, rtol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e200, 1e-200])
@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "complex64", "complex128"])
def test_norms_of_slices_agree_for_every_type(dtype, scale):
    tensor = noise(40_000).reshape(20, 50, 40) * (1 + 2j if dtype.startswith("complex") else 1)
    tensor = tensor.to(getattr(torch, dtype))
    if dtype in ("float64", "complex128"):
        tensor = tensor * scale
    assert sketch_by_torch(tensor)[1].slices is not None
    agree(sketch_by_torch(tensor), by_arrays(tensor))


def test_there_are_digests_of_what_lies_on_the_cpu():
    tensor = noise(5000, "bfloat16")
    statistics, _ = sketch_of_tensor(tensor, digests=["md5"])
    assert statistics["md5"] == hashlib.md5(tensor.view(torch.int16).numpy().tobytes()).hexdigest()


class Elsewhere:
    """A tensor that says that it is not on the CPU. What is computed of it there is computed on the CPU."""

    is_cpu = False

    def __init__(self, tensor):
        self.tensor, self.dtype, self.device = tensor, tensor.dtype, "elsewhere"

    def detach(self):
        return self.tensor.detach()


def test_what_lies_elsewhere_is_never_copied_to_be_hashed(monkeypatch):
    monkeypatch.setattr(torch_tensors, "array_of", None)
    tensor = noise(50_000)
    statistics, sketch = sketch_of_tensor(Elsewhere(tensor), digests=["md5"])
    agree((statistics, sketch), by_arrays(tensor))


def test_a_device_without_float64_is_left_to_the_host(monkeypatch):
    def refuse(*_):
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.")

    monkeypatch.setattr(torch_tensors, "_tables", refuse)
    tensor = noise(50_000)
    agree(sketch_of_tensor(Elsewhere(tensor)), by_arrays(tensor))


def test_unsigned_integers_of_64_bits_are_left_to_the_host():
    tensor = torch.from_numpy(np.array([2**64 - 1, 3], np.uint64))
    assert sketch_of_tensor(Elsewhere(tensor))[0]["maximum"] == 2**64 - 1


def test_the_memory_beside_the_tensor_is_bounded(monkeypatch):
    sizes, original = [], torch.Tensor.new_zeros

    def new_zeros(tensor, size, **options):
        made = original(tensor, size, **options)
        sizes.append(made.numel() * made.element_size())
        return made

    monkeypatch.setattr(torch.Tensor, "new_zeros", new_zeros)
    for m in SEEDS:
        sketch_by_torch(torch.zeros(10_000_000, dtype=torch.int8), buckets=m)
    assert max(sizes) == 2**23


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_of_a_tensor_on_a_device_a_recording_takes_nothing_but_the_sketch(tmp_path, monkeypatch, dtype):
    """No device is here: the CPU's tensors are taken for a device's, and must never become arrays."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
    model, x = model.to(getattr(torch, dtype)), noise(64 * 64, dtype).reshape(64, 64)
    taken = []
    with monkeypatch.context() as meanwhile:
        for module in (torch_tensors, record_torch):
            meanwhile.setattr(module, "is_elsewhere", lambda _: True)
        meanwhile.setattr(record_torch, "array_of", lambda tensor: taken.append(tensor.numel()) or array_of(tensor))
        for name in ("device", "same"):
            with record_torch.TorchRecording(model, tmp_path / name, save="sketch", digests=False):
                model(x)
    assert taken == [64, 64] * 2
    with record_torch.TorchRecording(model, tmp_path / "cpu", save="sketch", digests=False):
        model(x)
    report = assert_dumps_close(tmp_path / "device", tmp_path / "cpu", profile="strict")
    assert len(report.records) == 4
    found = open_dump(tmp_path / "device")["0"]
    assert (found.spec.dtype, found.spec.shape) == (dtype, (64, 512))
    assert not {"xxh3_128", "blake2b"} & found.statistics.values.keys()
