"""Functions inside the package that one example explains: what goes in, and what comes out."""

from __future__ import annotations

import pytest

from pytest_msdump.capabilities.convert.dump_files import data_type_number, memory_format_number
from pytest_msdump.capabilities.convert.formats import header_format
from pytest_msdump.capabilities.convert.renaming import compile_pattern
from pytest_msdump.capabilities.graphs.ir import dtype_name
from pytest_msdump.capabilities.inspect.checks import targets_of
from pytest_msdump.core.dumps.file_names import (
    parse_converted_bin,
)
from pytest_msdump.core.facts.memory_formats import may_be_padded
from pytest_msdump.core.model.tensor import OpKey, TensorKey
from pytest_msdump.core.storage.files import in_utf8

EXAMPLES = [
    *[(may_be_padded, name, True) for name in ("NC1HWC0", "FracZ", "SomethingNew")],
    *[(may_be_padded, name, False) for name in ("DefaultFormat", "NHWC", None)],
    (dtype_name, "F32", "float32"),
    (dtype_name, "Unknown", None),
    (targets_of, TensorKey(OpKey("fc1_bias", op_type="Parameter"), "output", 0), ("weight", "tensor")),
    (data_type_number, "half", 2),
    (data_type_number, "bfloat16", 27),
    (memory_format_number, "NC1HWC0", 3),
    (memory_format_number, "FracZ", 4),
    (memory_format_number, "DefaultFormat", 2),
    (header_format, "FracZ", "FRACTAL_Z"),
    (header_format, "LOOKUP_KEYS", "HASHTABLE_LOOKUP_KEYS"),
    (in_utf8, "n\u00e4me", b"n\xc3\xa4me"),
    (in_utf8, "n\udce4me", b"n\xe4me"),
    (in_utf8, "n\ud800me", b"n\\ud800me"),
]


@pytest.mark.parametrize(("function", "given", "wanted"), EXAMPLES, ids=[f"example{n}" for n in range(len(EXAMPLES))])
def test_a_function_gives_what_its_example_says(function, given, wanted):
    assert function(given) == wanted


def test_raw_bytes_made_of_a_dump_file_say_their_shape_type_and_format():
    parsed = parse_converted_bin("Add.op.3.1.1600000000000003.output.0.2_19.bfloat16.ND.bin")
    assert parsed is not None
    assert (parsed.dump.op, parsed.shape, parsed.dtype, parsed.memory_format) == ("op", (2, 19), "bfloat16", "ND")


def test_a_template_takes_as_much_as_fits_for_the_operator():
    match = compile_pattern("{op}-{slot}.npy").fullmatch("conv-1-0.npy")
    assert match is not None
    assert match.groupdict() == {"op": "conv-1", "slot": "0"}
