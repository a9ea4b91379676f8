from pathlib import Path

import numpy as np
import pytest
from dumps.dumpmade import FLOAT, TIME, message, one_output, op_output, put
from dumps.reading import elements

from pytest_msdump.capabilities.ascend.reader import ProtoFolderReader
from pytest_msdump.core.dumps.base import index_dump
from pytest_msdump.core.errors import TensorFileError


def in_protobuf(*arrays):
    outputs = [op_output(FLOAT, one.shape, 0, data=one.tobytes()) for one in arrays]
    return message(outputs=outputs, version="1.0")


def ref_of(folder):
    (ref,) = index_dump(folder).refs
    return ref


def test_of_several_outputs_the_one_of_the_names_index_is_read(tmp_path):
    put(tmp_path, f"a.1.{TIME}.pb", in_protobuf(np.array([1], "<f4"), np.array([2], "<f4")))
    assert elements(ref_of(tmp_path)).tolist() == [2.0]


def test_of_several_outputs_without_the_names_index_none_is_guessed(tmp_path):
    put(tmp_path, f"a.2.{TIME}.pb", in_protobuf(np.array([1], "<f4"), np.array([2], "<f4")))
    with pytest.raises(TensorFileError, match="holds 2 tensors"):
        elements(ref_of(tmp_path))


def test_files_of_another_kind_are_told(tmp_path):
    put(tmp_path, f"a.0.{TIME}.pb", one_output(np.ones(1, "<f4")))
    put(tmp_path, f"b.0.{TIME + 1}.quant", one_output(np.ones(1, "<f4")))
    np.save(tmp_path / f"c.0.{TIME}.npy", np.ones(1))
    dump = index_dump(tmp_path)
    assert [ref.key.op.name for ref in dump.refs] == ["a", "b"]
    assert dump.unexplained == (Path(f"c.0.{TIME}.npy"),)
    assert len(dump.notes) == 2


def test_a_single_file_is_a_dump(tmp_path):
    path = put(tmp_path, f"a.0.{TIME}.pb", one_output(np.ones(2, "<f4")))
    assert elements(ref_of(path)).tolist() == [1.0, 1.0]
    assert not ProtoFolderReader().recognises(put(tmp_path, "frozen_graph.pb", b""))
