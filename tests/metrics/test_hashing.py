"""Digests of bytes: XXH64 by its published vectors, sums in any order; one answer with the compiled kernel and without.

The old digest is one that version 1.0 wrote into a manifest.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels import EACH

from pytest_msdump.capabilities.record.manifest import SHA_256, digest, has_digest
from pytest_msdump.capabilities.statistics.hashing import Xxh64, order_free_sums
from pytest_msdump.core.metrics.kernel import VARIABLE

PRIME32, PRIME64 = 2654435761, 11400714785074694797
# Of xxHash's sanity test: length, seed, digest.
VECTORS = [
    (0, 0, "ef46db3751d8e999"),
    (0, PRIME32, "ac75fda2929b17ef"),
    (1, 0, "e934a84adb052768"),
    (1, PRIME32, "5014607643a9b4c3"),
    (4, 0, "9136a0dca57457ee"),
    (14, 0, "8282dcc4994e35c8"),
    (14, PRIME32, "c3bd6bf63deb6df0"),
    (222, 0, "b641ae8cb691c174"),
    (222, PRIME32, "20cb8ab7ae10c14a"),
]


each_kernel = pytest.mark.usefixtures("kernel")


@pytest.fixture(params=EACH)
def kernel(request, monkeypatch):
    monkeypatch.setenv(VARIABLE, request.param)


def sanity_buffer(length):
    made, state = bytearray(), PRIME32
    for _ in range(length):
        made.append(state >> 56)
        state = state * PRIME64 % 2**64
    return bytes(made)


def xxh64(data, seed=0, cuts=()):
    made = Xxh64(seed)
    for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True):
        made.update(data[start:stop])
    return made.hexdigest()


@each_kernel
@pytest.mark.parametrize(("length", "seed", "expected"), VECTORS)
def test_xxh64_is_the_published_one(length, seed, expected):
    assert xxh64(sanity_buffer(length), seed) == expected


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4), st.integers(0, 2**64 - 1))
def test_xxh64_of_pieces_is_that_of_the_whole(data, cuts, seed):
    assert xxh64(data, seed, sorted(min(cut, len(data)) for cut in cuts)) == xxh64(data, seed)


@each_kernel
@pytest.mark.parametrize("dtype", ["u1", "<f2", "<f4", "<f8", "<c8", "<c16", "?"])
@pytest.mark.parametrize("size", [0, 1, 31, 1000])
def test_sums_are_those_of_splitmix64_in_any_order(dtype, size):
    values = np.random.default_rng(size).integers(0, 256, size * np.dtype(dtype).itemsize, np.uint8)
    values = (values & 1 if dtype == "?" else values).view(dtype)
    sums = [0, 0]
    for element in values:
        raw = element.tobytes()
        for number, state in enumerate((0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)):
            for start in range(0, len(raw), 8):
                state ^= int.from_bytes(raw[start : start + 8], "little")
                state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
                state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
                state ^= state >> 31
            sums[number] = (sums[number] + state) % 2**64
    assert order_free_sums(values).tolist() == sums
    assert order_free_sums(values[::-1].copy()).tolist() == sums


OLD = "87858b08ea9f54284675f63b39830330/c6ed626b3ea67f79e8428c2c3d6f8507"


@each_kernel
def test_digests_of_older_manifests_are_known():
    values = np.arange(12, dtype="<f4").reshape(3, 4)
    assert has_digest(values, OLD)
    assert digest(values, SHA_256) == OLD
    assert digest(values).rpartition("/")[2] == OLD.rpartition("/")[2]


def changed(values):
    other = values.copy()
    other.flat[-1] += 1
    return other


@each_kernel
@pytest.mark.parametrize("algorithm", ["xxh64", SHA_256])
@pytest.mark.parametrize("change", [changed, lambda v: v.T.copy(), lambda v: v.reshape(2, 6), lambda v: v.view("<i4")])
def test_a_digest_is_of_the_values_their_type_and_their_shape(algorithm, change):
    values = np.arange(12, dtype="<f4").reshape(3, 4)
    assert has_digest(values, digest(values, algorithm))
    assert not has_digest(change(values), digest(values, algorithm))


def test_an_algorithm_of_a_later_version_says_no_more_than_the_values_do():
    values = np.arange(12, dtype="<f4")
    later = f"xxh9:0000/{digest(values).rpartition('/')[2]}"
    assert has_digest(values, later)
    assert not has_digest(changed(values), later)


@each_kernel
def test_digests_of_a_buffer_follow_what_is_written_to_it():
    values = np.arange(12, dtype="<f4").reshape(3, 4)
    first = digest(values)
    values[2, 3] += 1
    assert digest(values) != first
    values[2, 3] -= 1
    assert digest(values) == first
    assert digest(values.reshape(4, 3)) != first
