"""Files of torch.save, of every type, view and container, are read without PyTorch as it has them. Needs PyTorch."""

from contextlib import closing

import numpy as np
import pytest

from pytest_msdump.core.compare.opening import index, open_logical
from pytest_msdump.core.errors import TensorFileError, UnknownDumpFormatError

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.live,
    # PyTorch says that complex32 is experimental, and that quantized tensors and sparse layouts will change.
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]

FLOATS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"]
FLOATS += ["float8_e5m2fnuz", "float8_e8m0fnu"]
WHOLE = ["int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]
NAMES = [*FLOATS, *WHOLE, "complex32", "complex64", "complex128"]
# PyTorch 2.4 has not all of them, and cannot save unsigned integers of several bytes.
CANNOT_BE_SAVED = {"uint64", "uint32", "uint16"} if torch.__version__ < "2.5" else set()
DTYPES = [name for name in NAMES if hasattr(torch, name) and name not in CANNOT_BE_SAVED]
VIEWS = {
    "plain": lambda one: one,
    "transposed": lambda one: one.transpose(0, 1),
    "step": lambda one: one[:, ::2],
    "narrow": lambda one: one[1:3, 2:5],
    "expanded": lambda one: one[:1].expand(7, *one.shape[1:]),
    "scalar": lambda one: one[1, 2, 0],
    "empty": lambda one: one[:0],
    "overlapping": lambda one: one.as_strided((3, 3), (1, 1), 2),
    "channels_last": lambda one: one[None].contiguous(memory_format=torch.channels_last),
}
CONTAINERS = {
    "alone": lambda one: (one, {"file": one}),
    "list": lambda one: ({"a": {"b": [one, 3, "text"]}, "w": one}, {"a.b.0": one, "w": one}),
    "parameter": lambda one: (torch.nn.Parameter(one, requires_grad=False), {"file": one}),
}


def made(name):
    dtype, shape = getattr(torch, name), (4, 6, 3)
    if name == "complex32":
        return torch.complex(torch.randn(shape), torch.randn(shape)).to(dtype)
    if dtype.is_complex:
        return torch.randn(shape, dtype=dtype)
    drawn = torch.randn(shape) * 10
    return (drawn.abs() if name.startswith("uint") else drawn).to(dtype)


def values_of(tensor):
    """What torch says is in it, widened where numpy has no such type."""
    if tensor.dtype is torch.complex32:
        return tensor.to(torch.complex64).numpy()
    wide = str(tensor.dtype).startswith(("torch.bfloat", "torch.float8"))
    return (tensor.float() if wide else tensor).resolve_conj().resolve_neg().numpy()


def check(path, expected):
    refs = {ref.key.op.name: ref for ref in index(path).refs}
    assert refs.keys() == expected.keys()
    for name, tensor in expected.items():
        with closing(open_logical(refs[name])) as view:
            assert view.shape == tuple(tensor.shape)
            np.testing.assert_array_equal(view.read(0, view.size).reshape(view.shape), values_of(tensor))


@pytest.mark.parametrize("name", DTYPES)
def test_every_view_in_every_container_is_what_torch_saved(name, tmp_path):
    torch.manual_seed(1)
    path, files = tmp_path / "file.pt", 0
    for view in VIEWS.values():
        for contain in CONTAINERS.values():
            saved, expected = contain(view(made(name)))
            torch.save(saved, path)
            check(path, expected)
            files += 1
    assert files * len(DTYPES) >= 300


def test_networks_and_optimizers_are_what_torch_saved(tmp_path):
    path = tmp_path / "file.pt"
    network = torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.Flatten(), torch.nn.Linear(12, 2)
    )
    optimizer = torch.optim.AdamW(network.parameters(), amsgrad=True)
    network(torch.randn(2, 2, 4, 4)).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    torch.save({"net": network.state_dict(), "optimizer": state}, path)
    moments = {
        f"optimizer.state.{key}.{name}": one for key, part in state["state"].items() for name, one in part.items()
    }
    check(path, {f"net.{name}": one for name, one in network.state_dict().items()} | moments)


def test_conjugates_negatives_and_quantised_tensors_have_their_values(tmp_path):
    path = tmp_path / "file.pt"
    drawn = torch.randn(4, 5, dtype=torch.complex64)
    for one in (drawn.conj(), drawn.conj().imag, drawn.conj()[:, 1], drawn.real):
        torch.save(one, path)
        check(path, {"file": one})
    for dtype in (torch.qint8, torch.quint8, torch.qint32):
        quantised = torch.quantize_per_tensor(torch.randn(5, 4), 0.1, 3, dtype)
        torch.save(quantised, path)
        check(path, {"file": quantised.dequantize()})
        torch.save(quantised.T, path)
        check(path, {"file": quantised.dequantize().T})


@pytest.mark.parametrize("make", [lambda: torch.eye(3).to_sparse(), lambda: torch.zeros(3, device="meta")])
def test_what_has_no_plain_values_is_an_error_of_its_own(make, tmp_path):
    torch.save({"x": make(), "y": torch.ones(2)}, tmp_path / "file.pt")
    bad, good = index(tmp_path / "file.pt").refs
    with closing(open_logical(good)) as view:
        np.testing.assert_array_equal(view.read(0, 2), [1, 1])
    with pytest.raises(TensorFileError, match=r"file\.pt: x: is "):
        open_logical(bad)


def test_a_whole_module_is_refused_by_its_name(tmp_path):
    torch.save(torch.nn.Linear(2, 2), tmp_path / "file.pt")
    with pytest.raises(UnknownDumpFormatError, match=r"torch\.nn\.modules\.linear\.Linear"):
        index(tmp_path / "file.pt")
