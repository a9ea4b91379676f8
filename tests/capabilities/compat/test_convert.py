"""`msaccucmp convert`: what its options mean, what is said of them, and what is typed instead."""

from __future__ import annotations

import re
import shlex

import numpy as np
import pytest
from dumps import dumpmade

from pytest_msdump.capabilities.compat import msaccucmp
from pytest_msdump.cli import main

CONV = "left/Conv2D.c5hd_no_ori.3.1.1600000000000003"
FEW = "left/Add.nd.19.1.1600000000000019,left/Add.nchw_3d.20.1.1600000000000020"


def written(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "words",
    [
        ["-d", FEW, "-t", "bin"],
        ["-d", CONV, "-f", "NHWC", "-s", "2,5,7,19", "-o", "0", "-v", "1"],
        ["-d", CONV, "-f", "NCHW", "-c", "custom"],
        ["-d", FEW.split(",")[0], "-i", "0", "-t", "msnpy"],
        ["-d", "left", "-f", "NCHW"],
    ],
)
def test_the_new_spelling_is_told_once_and_does_the_same(words, in_case, capsys):
    folder = in_case("e_convert")
    code = msaccucmp.main(["convert", *words, "-out", "one"])
    (line,) = re.findall(r"^msaccucmp: the same as: msdump (.*)$", capsys.readouterr().err, re.M)
    assert main([word if word != "one" else "two" for word in shlex.split(line)]) == code
    assert written(folder / "one") == written(folder / "two")
    assert written(folder / "one")


def test_options_for_one_file_are_left_out_for_more_and_that_is_said(in_case, capsys):
    folder = in_case("e_convert")
    assert msaccucmp.main(["convert", "-d", "left", "-out", "out", "-o", "0", "-s", "2,3", "-f", "ND"]) == 1
    told = capsys.readouterr().err
    assert "-o is left out: it is for one file, and left is more" in told
    assert "-s is left out" in told
    assert any(".input.0." in name for name in written(folder / "out"))


# Of MindSpore's page on dumps: the file, the command, and the three files that it shows below.
SEED = "Conv2D.Default_network-WithLossCell__backbone-AlexNet_conv3-Conv2d_Conv2D-op12.2.7.161243956333802"
SHOWN = ["input.0.32x256x13x13.npy", "input.1.384x256x3x3.npy", "output.0.32x384x13x13.npy"]


def half_input(memory_format: int, shape: tuple[int, ...], original: tuple[int, ...]) -> bytes:
    parts = [dumpmade.number(1, dumpmade.FLOAT16), dumpmade.number(2, memory_format)]
    parts += [dumpmade.chunk(3, dumpmade.shape_of(*shape)), dumpmade.number(5, 2 * int(np.prod(shape)))]
    return b"".join([*parts, dumpmade.chunk(6, dumpmade.shape_of(*original))])


def test_the_documents_example_gives_the_files_that_it_shows(tmp_path, monkeypatch):
    stored = {"image": (32, 16, 13, 13, 16), "weight": (16 * 3 * 3, 24, 16, 16), "result": (32, 24, 13, 13, 16)}
    size = {name: 2 * int(np.prod(shape)) for name, shape in stored.items()}
    inputs = [
        half_input(dumpmade.NC1HWC0, stored["image"], (32, 256, 13, 13)),
        half_input(dumpmade.FRACTAL_Z, stored["weight"], (384, 256, 3, 3)),
    ]
    output = dumpmade.op_output(
        dumpmade.FLOAT16,
        stored["result"],
        size["result"],
        memory_format=dumpmade.NC1HWC0,
        original=(32, 384, 13, 13),
    )
    header = dumpmade.message(inputs=inputs, outputs=[output])
    dumpmade.put(tmp_path / "path" / "to", SEED, dumpmade.dump2(header, *map(bytes, size.values())))
    monkeypatch.chdir(tmp_path)
    line = f"convert -d path/to/{SEED} -out ./output -f NCHW -t npy"
    assert msaccucmp.main(line.split()) == 0
    assert sorted(written(tmp_path / "output")) == [f"{SEED}.{name}" for name in SHOWN]
