"""Networks without in-place layers: every blob has one writer, readers read what they read before, bytes stay."""

from __future__ import annotations

import re

import pytest

from pytest_msdump.capabilities.convert.prototxt_command import rewire, rewire_file
from pytest_msdump.core.errors import ConfigError

NET = """\
name: "small"  # comment
input: "data"
layer {
  name: "conv1"   type: "Convolution"
  bottom: "data"
  top: "conv1"
  convolution_param { num_output: 4 weight_filler { type: "xavier" } }
}
layer { name: "bn1" type: "BatchNorm" bottom: "conv1" top: "conv1" }
layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" }
layer { name: "sum" type: "Eltwise" bottom: "pool1" bottom: "conv1" top: "sum" }
"""


def rewired(text: str, **options: str) -> str:
    return rewire(text, source="net", **options).text


def layer(name: str, bottoms: str, tops: str, extra: str = "") -> str:
    fields = [
        f'name: "{name}"',
        *(f'bottom: "{blob}"' for blob in bottoms),
        *(f'top: "{blob}"' for blob in tops),
        extra,
    ]
    return f"layer {{ {' '.join(filter(None, fields))} }}\n"


def test_every_in_place_top_gets_its_layers_name_and_its_readers_follow():
    expected = (
        NET.replace('"BatchNorm" bottom: "conv1" top: "conv1"', '"BatchNorm" bottom: "conv1" top: "bn1"')
        .replace("bottom: 'conv1' top: 'conv1'", "bottom: 'bn1' top: 'relu1'")
        .replace('"Pooling" bottom: "conv1"', '"Pooling" bottom: "relu1"')
        .replace('bottom: "pool1" bottom: "conv1"', 'bottom: "pool1" bottom: "relu1"')
    )
    assert rewired(NET) == expected
    assert [(one.layer, one.old, one.new) for one in rewire(NET, source="net").renamed] == [
        ("bn1", "conv1", "bn1"),
        ("relu1", "bn1", "relu1"),
    ]


def test_who_reads_before_the_layer_in_place_reads_the_old_blob():
    net = layer("c", "d", "c") + layer("early", "c", "e") + layer("r", "c", "c") + layer("late", "c", "l")
    assert rewired(net) == layer("c", "d", "c") + layer("early", "c", "e") + layer("r", "c", "r") + layer(
        "late", "r", "l"
    )


def test_a_name_that_a_blob_has_already_gets_a_number():
    net = layer("c", "d", "r") + layer("r", "r", "r") + layer("p", "r", "p")
    assert rewired(net) == layer("c", "d", "r") + layer("r", "r", ["r_2"]) + layer("p", ["r_2"], "p")


def test_only_one_of_several_bottoms_is_written_over():
    assert rewired(layer("sum", "ab", "a") + layer("p", "a", "p")) == layer("sum", "ab", ["sum"]) + layer(
        "p", ["sum"], "p"
    )


def test_lists_and_colons_before_braces_are_read():
    net = 'layer: { name: "r" bottom: ["c", "x"] top: ["c"] } layer < name: "p" bottom: "c"; top: "p"; >'
    assert (
        rewired(net) == 'layer: { name: "r" bottom: ["c", "x"] top: ["r"] } layer < name: "p" bottom: "r"; top: "p"; >'
    )


TRAIN, TEST = "include { phase: TRAIN }", "include: { phase: TEST }"


def test_a_layer_of_the_other_phase_stays_in_place_on_what_is_renamed():
    net = layer("r", "c", "c") + layer("drop", "c", "c", TRAIN) + layer("p", "c", "p")
    expected = layer("r", "c", "r") + layer("drop", "r", "r", TRAIN) + layer("p", "r", "p")
    assert rewired(net) == expected
    assert rewire(net, source="net").notes == ()


@pytest.mark.parametrize("rule", [TEST, "exclude { phase: TRAIN }", "include { phase: 1 }"])
def test_a_layer_of_this_phase_alone_is_renamed_and_that_is_told(rule):
    net = layer("r", "c", "c", rule) + layer("p", "c", "p")
    result = rewire(net, source="net")
    assert result.text == layer("r", "c", "r", rule) + layer("p", "r", "p")
    assert result.notes == ("good for phase TEST alone: TRAIN does not have r, whose blobs are read now",)
    assert rewired(net, phase="TRAIN") == net


def test_a_blob_that_a_layer_of_each_phase_produces_is_no_blob_in_place():
    net = layer("data", "", "d", TRAIN) + layer("data", "", "d", TEST) + layer("c", "d", "c")
    assert rewired(net) == net


def test_names_with_quotes_stay_readable():
    net = r"""layer { name: 'it\'s' bottom: "c" top: 'c' } layer { name: "p" bottom: "c" top: "p" }"""
    assert rewired(net) == net.replace("top: 'c'", r"top: 'it\'s'").replace('"p" bottom: "c"', '"p" bottom: "it\'s"')


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_file_that_is_cut_off_is_refused(cut):
    net = 'layer { name: "r" bottom: "c" top: "c" x < y: 1 > }'
    if cut < len(net):
        with pytest.raises(ConfigError, match=r"^net: (not Protobuf text|cut off|has no layer)"):
            rewire(net[:cut], source="net")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no layer"),
        ('name: "x"', "has no layer"),
        ("layer { top: 'a' }", "layer 1 has no name"),
        ("layer { name: 'a' ] }", "not Protobuf text, line 1"),
        ("layer { " + "a { " * 200, "not Protobuf text"),
    ],
)
def test_what_is_no_network_is_refused(text, told):
    with pytest.raises(ConfigError, match=re.escape(told)):
        rewire(text, source="net")


def test_every_other_byte_of_the_file_stays(tmp_path):
    file = tmp_path / "resnet.prototxt"
    # Windows line ends, a comment in GBK, no line end at the end.
    content = NET.replace("\n", "\r\n").encode() + b"# \xd7\xa2\xca\xcd"
    file.write_bytes(content)
    target, _ = rewire_file(file)
    assert target == tmp_path / "new_resnet.prototxt"
    assert target.read_bytes() == rewired(NET).replace("\n", "\r\n").encode() + b"# \xd7\xa2\xca\xcd"
    assert file.read_bytes() == content
    assert sorted(tmp_path.iterdir()) == [target, file]


def test_another_file_of_that_name_is_never_written_over(tmp_path):
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "new_net.prototxt").write_text("mine")
    with pytest.raises(ConfigError, match="is there already"):
        rewire_file(tmp_path / "net.prototxt")
    assert (tmp_path / "new_net.prototxt").read_text() == "mine"
    rewire_file(tmp_path / "net.prototxt", out=tmp_path / "other")
    assert rewire_file(tmp_path / "net.prototxt", out=tmp_path / "other")[0].read_text() == rewired(NET)
