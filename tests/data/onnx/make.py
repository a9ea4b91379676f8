"""Make two sets of test data with onnx, numbers typed in the first and raw in the second, and what onnx reads there."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
WITHOUT_NUMBERS = ("UNDEFINED", "STRING", "FLOAT6E2M3", "FLOAT6E3M2")
NARROW = {"BOOL": (0, 2), "UINT2": (0, 2), "INT2": (-2, 2), "UINT4": (0, 16), "INT4": (-8, 8)}
SHAPE = (3, 3)


def main() -> None:
    values, rng = {}, np.random.default_rng(0)
    for number in (0, 1):
        shutil.rmtree(HERE / "sets" / f"test_data_set_{number}", ignore_errors=True)
        (HERE / "sets" / f"test_data_set_{number}").mkdir(parents=True)
    names = [name for name in TensorProto.DataType.keys() if name not in WITHOUT_NUMBERS]
    for number, name in enumerate(names):
        code = TensorProto.DataType.Value(name)
        low, high = NARROW.get(name, (0, 8) if name.startswith("UINT") or name == "FLOAT8E8M0" else (-6, 7))
        array = rng.integers(low, high, size=SHAPE).astype(np.float32)
        given = (array + 1j * array[::-1]) if name.startswith("COMPLEX") else array
        typed = helper.make_tensor(name.lower(), code, SHAPE, given.ravel().tolist())
        raw = numpy_helper.from_array(given.astype(helper.tensor_dtype_to_np_dtype(code)), name.lower())
        for place, proto in enumerate((typed, raw)):
            (HERE / "sets" / f"test_data_set_{place}" / f"input_{number}.pb").write_bytes(proto.SerializeToString())
        values[name.lower()] = numpy_helper.to_array(raw).astype(np.complex128 if given.dtype.kind == "c" else float)
        assert np.array_equal(numpy_helper.to_array(typed), numpy_helper.to_array(raw), equal_nan=name[:5] == "FLOAT")
    np.savez_compressed(HERE / "values.npz", **values)


if __name__ == "__main__":
    main()
