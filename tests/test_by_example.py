"""Functions inside the package that one example explains: what goes in, and what comes out."""

from __future__ import annotations

import pytest

from pytest_msdump.capabilities.convert.dump_files import data_type_number, memory_format_number
from pytest_msdump.capabilities.convert.formats import header_format
from pytest_msdump.capabilities.convert.renaming import compile_pattern
from pytest_msdump.capabilities.graphs.flow import consumers
from pytest_msdump.capabilities.graphs.ir import dtype_name
from pytest_msdump.capabilities.graphs.text_proto import unescaped
from pytest_msdump.capabilities.inspect.checks import targets_of
from pytest_msdump.core.dtypes import canonical, coarser
from pytest_msdump.core.dumps.file_names import (
    AscendName,
    SliceName,
    is_time,
    parse_ascend,
    parse_converted_bin,
    parse_flat,
    parse_mindspore,
    slice_name,
)
from pytest_msdump.core.facts.memory_formats import may_be_padded
from pytest_msdump.core.model.dump import Edge, Operator, OperatorGraph
from pytest_msdump.core.model.tensor import OpKey, TensorKey
from pytest_msdump.core.storage.files import in_utf8

EXAMPLES = [
    (canonical, "BFloat16", "bfloat16"),
    (canonical, "half", "float16"),
    (canonical, "HiFloat8", "hifloat8"),
    (canonical, "float7", None),
    *[(may_be_padded, name, True) for name in ("NC1HWC0", "FracZ", "SomethingNew")],
    *[(may_be_padded, name, False) for name in ("DefaultFormat", "NHWC", None)],
    (is_time, 1700000000000000, True),
    (is_time, 3, False),
    (is_time, None, False),
    (slice_name, "partition0_sgt_graph_0_conv_lxslice12", SliceName("partition0_sgt_graph_0_conv", "conv", 12)),
    (slice_name, "conv", SliceName("conv", "conv", None)),
    (dtype_name, "BFloat16", "bfloat16"),
    (dtype_name, "F32", "float32"),
    (dtype_name, "Float8E4M3FN", "float8_e4m3fn"),
    (dtype_name, "Unknown", None),
    (unescaped, r"a\tb\x63", "a\tbc"),
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


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [("float32", "bfloat16", "bfloat16"), ("complex128", "float32", "float32"), ("float16", "int64", "float16")],
)
def test_a_pair_is_judged_by_its_coarser_type(left, right, wanted):
    assert coarser(left, right) == wanted


def test_a_name_of_mindspore_says_operator_slot_and_type():
    parsed = parse_mindspore("ReLU.Default_ReLU-op0.0.0.1700000000000000.output.0.DefaultFormat.Float32.npy")
    assert parsed is not None
    assert (parsed.op_type, parsed.op, parsed.io, parsed.slot) == ("ReLU", "Default_ReLU-op0", "output", 0)
    assert parsed.dtype == "Float32"


def test_a_flat_name_says_operator_slot_shape_and_type():
    parsed = parse_flat("Default--Add-op1_input_0_shape_1_3_3_4_Float32_DefaultFormat.bin")
    assert parsed is not None
    assert (parsed.op, parsed.op_type, parsed.io, parsed.slot) == ("Default_Add-op1", "Add", "input", 0)
    assert (parsed.shape, parsed.dtype, parsed.memory_format) == ((1, 3, 3, 4), "Float32", "DefaultFormat")


def test_a_dump_file_s_name_has_a_stream_or_none_and_maybe_four_numbers_more():
    assert parse_ascend("Conv2D.conv1.3.1.1600000000000003") == AscendName("Conv2D", "conv1", 3, 1, 1600000000000003)
    assert parse_ascend("SplitD.split1.4.1600000000000004") == AscendName("SplitD", "split1", 4, None, 1600000000000004)
    long = AscendName("Add", "op", 5, 3, 1600000000000010, 4, 11, 0, 0)
    assert parse_ascend("Add.op.5.3.1600000000000010.4.11.0.0") == long


def test_raw_bytes_made_of_a_dump_file_say_their_shape_type_and_format():
    parsed = parse_converted_bin("Add.op.3.1.1600000000000003.output.0.2_19.bfloat16.ND.bin")
    assert parsed is not None
    assert (parsed.dump.op, parsed.shape, parsed.dtype, parsed.memory_format) == ("op", (2, 19), "bfloat16", "ND")


def test_a_tensor_that_is_read_twice_feeds_both_slots():
    add = Operator("add", "Add", inputs=(Edge("conv", 0), Edge("conv", 0)))
    found = consumers(OperatorGraph((Operator("conv", "Conv2D"), add)))
    assert found == {Edge("conv", 0): (("add", 0), ("add", 1))}


def test_a_template_takes_as_much_as_fits_for_the_operator():
    match = compile_pattern("{op}-{slot}.npy").fullmatch("conv-1-0.npy")
    assert match is not None
    assert match.groupdict() == {"op": "conv-1", "slot": "0"}
