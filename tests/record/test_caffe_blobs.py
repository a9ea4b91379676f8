"""A Caffe net's blobs become a dump by layer and index, and no layer gets the bytes of another."""

from __future__ import annotations

import os
import re
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_msdump import open_dump
from pytest_msdump.capabilities.convert.prototxt_command import rewire
from pytest_msdump.capabilities.frameworks.caffe import Shared, shared_bytes
from pytest_msdump.cli import main
from pytest_msdump.core.errors import ConfigError, DumpNotFoundError
from pytest_msdump.record import Recorder, from_caffe

NET = """\
input: "data"
layer { name: "conv/a.b" type: "Convolution" bottom: "data" top: "conv" }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "drop" bottom: "conv" top: "conv" include { phase: TRAIN } }
layer { name: "split" type: "Slice" bottom: "conv" top: "left" top: "right" }
"""


class StandIn:
    """A net that computes as Caffe does: what is in place writes over what was there."""

    def __init__(self, blobs, params=()):
        self.blobs = {name: SimpleNamespace(data=data) for name, data in blobs.items()}
        self.inputs = ["data"]
        self.params = {name: [SimpleNamespace(data=one) for one in arrays] for name, arrays in dict(params).items()}


DATA = np.arange(-4, 4, dtype="float32").reshape(1, 8)
CONV = DATA * 2
RELU = np.maximum(CONV, 0)
HALVES = {"left": RELU[:, :4], "right": RELU[:, 4:]}


@pytest.fixture
def prototxt(tmp_path):
    file = tmp_path / "net.prototxt"
    file.write_text(NET)
    return file


def in_place() -> StandIn:
    return StandIn(
        {"data": DATA, "conv": RELU, **HALVES}, {"conv/a.b": [np.ones(3, "float32"), np.zeros(1, "float32")]}
    )


def values(folder):
    dump = open_dump(folder)
    return {
        (ref.key.op.true_name, ref.key.op.op_type, ref.key.slot): dump.read(ref.key.address)
        for ref in sorted(dump.refs, key=lambda ref: ref.source.timestamp)
    }


def test_without_layers_in_place_every_layer_is_recorded(tmp_path, prototxt):
    prototxt.write_text(rewire(NET, source="net").text)
    net = StandIn({"data": DATA, "conv": CONV, "relu": RELU, **HALVES})
    found = values(from_caffe(net, prototxt, tmp_path / "dump"))
    np.testing.assert_array_equal(found["conv/a.b", "Convolution", 0], CONV)
    np.testing.assert_array_equal(found["relu", "ReLU", 0], RELU)


def test_files_are_named_as_the_vendor_names_them(tmp_path, prototxt):
    with pytest.warns(UserWarning, match="in place"):
        folder = from_caffe(in_place(), prototxt, tmp_path / "dump")
    prototxt.write_text(rewire(NET, source="net").text)
    again = from_caffe(StandIn({"data": DATA, "conv": CONV, "relu": RELU, **HALVES}), prototxt, tmp_path / "again")
    names = {file.name[:-21] for made in (folder, again) for file in made.glob("*.npy")}
    assert names == {"data.0", "relu.0", "split.0", "split.1", "conv_a_b.0"}
    assert all(re.fullmatch(r"[\w-]+\.\d\.\d{16}\.npy", file.name) for file in again.glob("*.npy"))


def test_the_layers_are_those_of_the_nets_phase(tmp_path, prototxt):
    with pytest.warns(UserWarning, match=r"relu \(written over by drop\)"):
        folder = from_caffe(in_place(), prototxt, tmp_path / "dump", phase="TRAIN")
    assert ("drop", None, 0) in values(folder)
    with pytest.raises(ConfigError, match="one of TEST, TRAIN"):
        from_caffe(in_place(), prototxt, tmp_path / "other", phase="test")


def test_blobs_are_all_that_a_net_needs(tmp_path, prototxt):
    blobs = {name: SimpleNamespace(data=array) for name, array in {"conv": RELU, **HALVES}.items()}
    with pytest.warns(UserWarning, match="in place"):
        opened = Recorder(tmp_path, opened=open_dump).caffe(SimpleNamespace(blobs=blobs), prototxt=prototxt)
    assert {ref.key.op.true_name for ref in opened.refs} == {"relu", "split"}


def test_the_prototxt_of_another_net_is_told_before_anything_is_written(tmp_path, prototxt):
    with pytest.raises(ConfigError, match="its blob 'conv' is not in the net"):
        from_caffe(StandIn({"data": DATA}), prototxt, tmp_path / "dump")
    with pytest.raises(DumpNotFoundError, match="no such file"):
        from_caffe(StandIn({}), tmp_path / "gone", tmp_path / "dump")
    assert not (tmp_path / "dump").exists()


# -- references that scripts made -------------------------------------------------------------------------------------


def script(folder, blobs, tops):
    """Save blobs as scripts do: the blob of each layer's top, under the layer's name."""
    folder.mkdir()
    for number, (name, slot, blob) in enumerate(tops):
        np.save(folder / f"{name}.{slot}.{1600000000000000 + number}.npy", blobs[blob])
    return folder


TOPS = [("conv_a_b", 0, "conv"), ("relu", 0, "conv"), ("split", 0, "left"), ("split", 1, "right")]


def test_a_reference_with_the_bytes_of_a_layer_in_place_is_told(tmp_path, prototxt, capsys):
    folder = script(tmp_path / "dump", {"conv": RELU, **HALVES}, TOPS)
    assert shared_bytes(prototxt, folder) == [Shared("conv/a.b", "relu", "conv")]
    assert main(["prototxt", str(prototxt), "--reference", str(folder)]) == 1
    assert "conv/a.b: its file holds the bytes of relu, which is in place on conv\n" in capsys.readouterr().out
    assert sorted(tmp_path.iterdir()) == [folder, prototxt]


def test_a_reference_of_layers_with_their_own_bytes_is_not(tmp_path, prototxt):
    tops = [("conv_a_b", 0, "own"), *TOPS[1:]]
    folder = script(tmp_path / "dump", {"own": CONV, "conv": RELU, **HALVES}, tops)
    # Of one size and one time, as a fast script leaves them.
    for file in folder.iterdir():
        os.utime(file, ns=(0, 0))
    assert shared_bytes(prototxt, folder) == []
    assert main(["prototxt", str(prototxt), "--reference", str(folder)]) == 0


def test_what_is_no_reference_is_refused(tmp_path, prototxt):
    with pytest.raises(ConfigError, match="is not a reference"):
        shared_bytes(prototxt, tmp_path)
    with pytest.raises(DumpNotFoundError, match="no such directory"):
        shared_bytes(prototxt, tmp_path / "gone")
    assert main(["prototxt", str(prototxt), "--reference", str(tmp_path), "--out", "x"]) == 4
