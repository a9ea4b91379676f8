"""Header and claim together: the storage forms that are known, and that no contradiction is guessed away."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_msdump.core.dtypes.decode import bfloat16_values, storage_of, stored_as
from pytest_msdump.core.errors import TensorFileError

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
PLAIN = ["bool", *INTEGERS, "float16", "float32", "float64", "complex64", "complex128"]


def test_every_bfloat16_is_the_float32_with_sixteen_zero_bits_behind_it():
    bits = np.arange(2**16, dtype="<u2")
    raw = bits.tobytes()
    oracle = b"".join(b"\0\0" + raw[place : place + 2] for place in range(0, len(raw), 2))
    assert bfloat16_values(bits).astype("<f4").tobytes() == oracle
    assert bfloat16_values(bits.astype(">u2")).astype("<f4").tobytes() == oracle


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("claimed", ["none", "same", "shouted"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_header_and_claim_that_agree(name, claimed, order):
    dtype = np.dtype(name).newbyteorder(order)
    said = {"none": None, "same": name, "shouted": name.upper()}[claimed]
    storage = storage_of(dtype.str, said, where="here")
    values = (np.arange(-3, 3) % 5).astype(dtype)
    got = storage.decode(values.view(storage.stored))
    assert storage.logical == name
    assert got.dtype == np.dtype(name)
    assert got.tolist() == values.tolist()


@pytest.mark.parametrize("claimed", PLAIN)
@pytest.mark.parametrize("header", PLAIN)
def test_every_other_pair_of_plain_types_is_a_contradiction(claimed, header):
    if claimed == header:
        return
    with pytest.raises(TensorFileError, match=f"here: its name says {claimed}, its header says {header}"):
        storage_of(np.dtype(header).str, claimed, where="here")


@pytest.mark.parametrize("claimed", PLAIN)
@pytest.mark.parametrize("descr", ["<E2", "<T2", "|V2"])
def test_two_raw_bytes_are_nothing_but_bfloat16(claimed, descr):
    with pytest.raises(TensorFileError, match=f"its name says {claimed}"):
        storage_of(descr, claimed, where="here")


@pytest.mark.parametrize(
    ("claimed", "descr", "logical"),
    [("Int4", "|i1", "int4"), ("Int2", "|i1", "int2"), ("UInt1", "|u1", "uint1"), ("UInt2", "|u1", "uint2")],
)
def test_types_below_one_byte_are_saved_with_a_byte_each(claimed, descr, logical):
    storage = storage_of(descr, claimed, where="here")
    assert storage.logical == logical
    assert storage.decode(np.array([0, 1], storage.stored)).tolist() == [0, 1]
    with pytest.raises(TensorFileError, match="one of the two is wrong"):
        storage_of("<f4", claimed, where="here")


@pytest.mark.parametrize("claimed", ["HiFloat8", "Float8E4M3FN", "Float8E5M2"])
@pytest.mark.parametrize("descr", ["|u1", "|V1", "<f1"])
def test_floats_of_8_bits_are_saved_as_their_bytes(claimed, descr):
    storage = storage_of(descr, claimed, where="here")
    codes = np.arange(256, dtype=np.uint8).view(storage.stored)
    expected = stored_as(claimed).decode(np.arange(256, dtype=np.uint8))
    assert np.array_equal(storage.decode(codes), expected, equal_nan=True)


def test_claim_of_a_type_without_a_table_is_refused():
    with pytest.raises(TensorFileError, match=r"Float7.*cannot be decoded; save the tensor as float32"):
        storage_of("|u1", "Float7", where="here")


def test_bool_bytes_other_than_0_and_1_are_true():
    storage = storage_of("|b1", None, where="here")
    decoded = storage.decode(np.array([0, 1, 2, 255], storage.stored))
    assert decoded.dtype == bool
    assert decoded.view(np.uint8).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    ("dtype", "sentence"),
    [
        ("O", "never loaded"),
        ("S5", "byte strings"),
        ("U3", "text"),
        ("M8[s]", "dates"),
        ("m8[ns]", "time spans"),
        ("V7", "raw bytes of unknown meaning"),
        ("V2", "when the file name says BFloat16"),
    ],
)
def test_types_that_are_no_numbers_are_refused_with_advice(dtype, sentence):
    with pytest.raises(TensorFileError, match="^here: .*" + sentence):
        storage_of(np.dtype(dtype).str, None, where="here")


@pytest.mark.parametrize("descr", [[("a", "<f4")], ("<f4", (2,)), 4, None])
def test_records_are_refused(descr):
    with pytest.raises(TensorFileError, match="several fields"):
        storage_of(descr, None, where="here")


@pytest.mark.parametrize("descr", ["", "<f3", "<f4,<f4", "<f4 ", "float33", "?1", "<E4", "<b2", "<" * 9000])
def test_descr_outside_the_table_is_refused(descr):
    with pytest.raises(TensorFileError, match="save") as caught:
        storage_of(descr, None, where="here")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("order", ["", "<", ">", "=", "|"])
@pytest.mark.parametrize("name", ["f4", "f", "d", "e", "?", "b", "B", "i", "l", "q", "F", "V2", "M8", "O", "g"])
def test_letters_without_a_width_or_an_order_mean_what_they_mean_to_numpy(order, name):
    meant = np.dtype(order + name)
    if meant.kind in "VMO" or (meant.kind == "f" and meant.itemsize > 8):
        with pytest.raises(TensorFileError, match=r"in its header means (raw|dates|pickled|floats wider)"):
            storage_of(order + name, None, where="here")
    else:
        found = storage_of(order + name, None, where="here")
        # A bool is read as a byte, which may hold anything.
        assert (found.logical, found.stored) == (meant.name, np.dtype("u1") if meant.kind == "b" else meant)


def test_float4_is_read_where_each_element_has_a_byte_of_its_own():
    storage = storage_of("|u1", "float4_e2m1fn", where="a.npy")
    assert storage.logical == "float4_e2m1"
    values = storage.decode(np.arange(16, dtype=np.uint8))
    positive = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    assert [repr(float(value)) for value in values] == [*map(repr, positive), *(repr(-value) for value in positive)]
    assert values.dtype == np.float32
    with pytest.raises(TensorFileError, match=r"^a\.npy: holds the byte 33, and one element of float4_e2m1 a byte"):
        storage.decode(np.array([1, 33], np.uint8))
