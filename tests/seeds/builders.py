"""Inputs of the statements, each made in the current folder as the seeds have it, without the package's tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from dumps.dumpmade import FLOAT, FLOAT16, INT32, NC1HWC0, chunk, dump2, message, number, put, shape_of

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden"
# What the operators hold: A (1, 3, 3, 4) in float32, and C (2, 19, 3, 4) in float16 with its 5-D form.
A = np.arange(36, dtype=np.float32).reshape(1, 3, 3, 4) / 4
C = np.arange(2 * 19 * 12).reshape(2, 19, 3, 4).astype(np.float16) / 8
C5 = np.pad(C, ((0, 0), (0, 13), (0, 0), (0, 0))).reshape(2, 2, 16, 3, 4).transpose(0, 1, 3, 4, 2).copy()
NCHW = 0
CONV = "Default/network-WithLossCell/_backbone-AlexNet/conv3-Conv2d/Conv2D-op"
BN = (
    "Default_network-YoloWithLossCell_yolo_network-YOLOV3DarkNet53_feature_map-YOLOv3_backblock0-YoloBlock_conv3-SequentialCell"
    "_1-BatchNorm2d_BNTrainingUpdate-op5489"
)
TIME = 1623124369613540
STAMP = "20231122101010"
# The sample configurations of the seeds, and the graphs that their runs have.
CONFIGS = json.loads((GOLDEN.parent / "dump_configs.json").read_text("utf-8"))
IR_1, IR_2 = (Path(__file__).with_name(f"graph_of_{release}.ir").read_text("utf-8") for release in "12")


def config(base: str, *changes: str) -> None:
    """Write ``c.json``: a sample with `changes`, ``key=JSON``, ``e2e.key=JSON`` or ``-key``."""
    document = json.loads(json.dumps(CONFIGS[base]))
    for change in changes:
        key, _, value = change.lstrip("-").partition("=")
        section, _, name = key.rpartition(".")
        settings = document.setdefault(f"{section}_dump_settings", {}) if section else next(iter(document.values()))
        if change.startswith("-"):
            del settings[name]
        else:
            settings[name] = json.loads(value)
    Path("c.json").write_text(json.dumps(document))


def npy(folder: str, name: str, values: Any) -> None:
    """Save an array, or what Python makes of a text."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    np.save(Path(folder) / name, np.asarray(eval(values) if isinstance(values, str) else values))


def text(path: str, content: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(content)


def described(io: str, values: np.ndarray, memory_format: int = NCHW, whole: Sequence[int] | None = None) -> bytes:
    """The header of a tensor whose shape without padding is `whole`; the numbers of an input's fields differ."""
    size, original = (6, 7) if io == "output" else (5, 6)
    kind = {"float32": FLOAT, "float16": FLOAT16, "int32": INT32}[values.dtype.name]
    message = (
        number(1, kind) + number(2, memory_format) + chunk(3, shape_of(*values.shape)) + number(size, values.nbytes)
    )
    return message + chunk(original, shape_of(*(whole or values.shape)))


def dump_file(*, blocked: bool = True) -> bytes:
    """An operator with two inputs and one output: A, 1 + A, and C, blocked as the device has it or plain."""
    made = described("output", C5, NC1HWC0, C.shape) if blocked else described("output", C)
    header = message(outputs=[made], inputs=[described("input", A)] * 2)
    return dump2(header, A.tobytes(), (1 + A).tobytes(), (C5 if blocked else C).tobytes())


def side_files(base: str, conv: str, ir: str, metadata: str, kind: str) -> None:
    text(f"{base}/graphs/ms_output_trace_code_graph_0.ir", ir)
    put(Path(f"{base}/graphs"), "ms_output_trace_code_graph_0.pb", b"")
    order = f"NodeExecutionOrder-FullNameWithScope\nDefault/Add-op1\n{conv}\n"
    text(f"{base}/execution_order/ms_execution_order_graph_0.csv", order)
    text(f"{metadata}/data_dump.json", json.dumps(CONFIGS[kind]))


def r13_sync() -> None:
    folder = Path("run/ResNet50/device_0/iteration_0")
    put(folder, "Default--Add-op1_input_0_shape_1_3_3_4_Float32_DefaultFormat.bin", A.tobytes())
    put(folder, "Default--Add-op1_output_0_shape_1_3_3_4_Float32_DefaultFormat.bin", (2 * A).tobytes())
    name = f"{CONV}107".replace("/", "--")
    put(folder, f"{name}_output_0_shape_2_2_3_4_16_Float16_NC1HWC0.bin", C5.tobytes())
    side_files("run/ResNet50/device_0", f"{CONV}107", IR_1, "run/.metadata", "r13_sync")


def r13_async() -> None:
    folder = Path("run/0/ResNet50_graph_0/0/0")
    put(folder, "Add.Default_Add-op1.2.161243956333802", dump_file(blocked=False))
    put(folder, f"Conv2D.{CONV.replace('/', '_')}107.3.161243956333912", dump_file())
    side_files("run/0", f"{CONV}107", IR_1, "run/.metadata", "r13_async")


def r15_sync() -> None:
    folder = "run/rank_0/ResNet50/0/0"
    npy(folder, f"Add.Add-op1.1.2.{TIME - 100}.input.0.DefaultFormat.npy", A)
    npy(folder, f"Conv2D.Conv2D-op107.2.2.{TIME}.output.0.DefaultFormat.npy", C)
    side_files("run/rank_0", f"{CONV}107", IR_1, "run/rank_0/.dump_metadata", "r15_sync")
    text("run/rank_0/graphs/ms_output_trace_code_graph_7.ir", IR_1)


def r15_sync_float32() -> None:
    """The same run, whose graph says Float32 where the file holds float16."""
    r15_sync()
    path = Path("run/rank_0/graphs/ms_output_trace_code_graph_0.ir")
    path.write_text(path.read_text().replace("-> (<Tensor[Float16]", "-> (<Tensor[Float32]"))


def parsed() -> None:
    """What a parser made of a file."""
    npy("run/rank_0/ResNet50/0/0", f"Conv2D.Conv2D-op107.2.2.{TIME}.output.0.NCHW.npy", C)


def r15_async() -> None:
    folder = Path("run/rank_0/ResNet50/0/0")
    put(folder, f"Add.Default_Add-op1.1.2.{TIME - 100}", dump_file(blocked=False))
    put(folder, f"Conv2D.{CONV.replace('/', '_')}107.2.2.{TIME}", dump_file())
    side_files("run/rank_0", f"{CONV}107", IR_1, "run/rank_0/.dump_metadata", "r15_async")


STATISTICS = (
    "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value,L2Norm Value"
)


def statistics(folder: str, maximum: float = 8.75) -> None:
    """A row of ``statistic.csv`` for A, with numpy's numbers unless `maximum` says otherwise."""
    row = f'Add,Default_Add-op1,0,0,{TIME - 100},output,0,144,float32,"(1,3,3,4)",{maximum},0,{np.linalg.norm(A)}'
    text(f"{folder}/statistic.csv", f"{STATISTICS}\n{row}\n")


def o0(dtype: bool = True) -> None:
    folder = "run/rank_0/ResNet50/0/0"
    f32, f16 = (".float32", ".float16") if dtype else ("", "")
    npy(folder, f"Add.Default_Add-op1.0.0.{TIME - 100}.output.0.DefaultFormat{f32}.npy", A)
    npy(folder, f"Conv2D.{CONV.replace('/', '_')}12.0.0.{TIME}.output.0.DefaultFormat{f16}.npy", C)
    npy("run/rank_0/ResNet50/0/constants", f"Parameter.data-7.0.0.{TIME - 900}.output.0.DefaultFormat{f32}.npy", A)
    side_files("run/rank_0", f"{CONV}12", IR_2, "run/rank_0/.dump_metadata", "o0")
    text("run/rank_0/execution_order/ms_global_execution_order_graph_0.csv", "0\n")


def cpu() -> None:
    o0(dtype=False)
    npy("run/rank_0/ResNet50/0/0", f"Parameter.conv1.weight.0.0.{TIME + 900}.output.0.DefaultFormat.npy", A)


def matmul() -> None:
    """An operator with the file of its arguments."""
    folder = "run/rank_0/Net/0/0"
    npy(folder, f"MatMul.Default_MatMul-op3.0.0.{TIME}.output.0.DefaultFormat.float32.npy", A)
    text(f"{folder}/MatMul.Default_MatMul-op3.json", '{"transpose_a": "False", "transpose_b": "False"}')


# What the device's overflow record holds, as npy mode writes it: status 8 in stream 7, task 2.
RECORD = {"model_id": 1, "stream_id": 7, "task_id": 2, "task_type": 0, "pc_start": "0x12", "para_base": "0x34"}
QUIET = {
    "model_id": 0,
    "stream_id": 0,
    "task_id": 0,
    "task_type": 0,
    "pc_start": "0x0",
    "para_base": "0x0",
    "status": 0,
}


def overflow() -> None:
    folder = f"run/0/{STAMP}/0/Net/1/0"
    npy(folder, "Conv2D.Default_conv-op1.2.7.1612439563338020.output.0.NCHW.float16.npy", np.float16([1, np.inf]))
    core = RECORD | {"kernel_code": "0x9", "block_idx": 0, "status": 8}
    document = {"DHA Atomic Add": QUIET, "L2 Atomic Add": QUIET, "AI Core": core}
    text(f"{folder}/Opdebug.Node_OpDebug.21.7.1612439563340000.output.0.json", json.dumps(document))


def device(root: str, *, binary: bool = True) -> None:
    """Below a time: device, model, its id, iteration."""
    folder = f"{root}/{STAMP}/0/ResNet50/1/0"
    conv = f"Conv2D.{CONV.replace('/', '_')}12.2.7.161243956333802"
    if binary:
        put(Path(folder), conv, dump_file())
        put(Path(folder), f"Add.Default_Add-op1.65535.65535.{161243956333702}", dump_file(blocked=False))
        return
    npy(folder, f"{conv}.output.0.NCHW.float16.npy", C)
    npy(folder, "400000001.npy", A)
    text(
        f"{folder}/mapping.csv",
        f"400000001.npy,Add.Default_{'x' * 240}_Add-op1.1.7.161243956333702.output.0.NCHW.float32.npy\n",
    )


def o2(form: str = "bin") -> None:
    device("run/3", binary=form == "bin")
    text("run/acl_dump_0.json", json.dumps(CONFIGS["acl_single"]))


def ge(form: str = "bin") -> None:
    device("run", binary=form == "bin")


def single_operator() -> None:
    """Without a model: files below the device."""
    put(Path(f"run/{STAMP}/0"), f"Add.Add1.1.7.{TIME}", dump_file(blocked=False))


def single_operator_old() -> None:
    """The older form: no time, a folder for the operator, no stream."""
    put(Path("run/0/Add1"), f"Add.Add1.1.{TIME}", dump_file(blocked=False))


def bn() -> None:
    """A file of seven inputs and five outputs, blocked: the first of each holds C, the others one value per channel."""
    small = np.full((1, 2, 1, 1, 16), 2, np.float16)
    whole, flat = (C5, C.shape), (small, (1, 19, 1, 1))
    held = {"input": [whole] + [flat] * 6, "output": [whole] + [flat] * 4}
    told = {io: [described(io, values, NC1HWC0, shape) for values, shape in tensors] for io, tensors in held.items()}
    data = [values.tobytes() for tensors in held.values() for values, _ in tensors]
    content = dump2(message(inputs=told["input"], outputs=told["output"]), *data)
    put(Path("run"), f"BNTrainingUpdate.{BN}.137.1608983934774491", content)


def sides(left: str, right: str, op: str = "a") -> None:
    """Two folders of ``.npy`` files with an operator of the values that numpy makes of each text."""
    for folder, values in (("L", left), ("R", right)):
        npy(folder, f"{op}.0.{TIME}.npy", np.asarray(eval(values, {"np": np, "A": A})))


def reference(op: str, values: str) -> None:
    """A folder ``ref`` with an operator, and a suite whose map names its partner, the convolution."""
    npy("ref", f"{op}.0.{TIME}.npy", eval(values, {"A": A, "C": C, "np": np}))
    text("msdump.toml", f'[msdump]\nleft = "run"\nright = "ref"\n[[msdump.map]]\nleft = "{CONV}107"\nright = "{op}"\n')


def remove(folder: str) -> None:
    shutil.rmtree(folder)


def bfloat16() -> None:
    """Values of bfloat16 on the left, and on the right what they were rounded from: 2^-9 of each is lost."""
    name = f"Add.Default_Add-op1.0.0.{TIME}.output.0.DefaultFormat"
    npy("run/rank_0/N/0/0", f"{name}.bfloat16.npy", np.float32([1.5, 2, 3]))
    npy("ref/rank_0/N/0/0", f"{name}.float32.npy", np.float32([1.5, 2, 3]) * np.float32(1 + 2**-8))


TYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"


def all_types() -> None:
    """A tensor of each type that can be saved, under the spelling of the documents."""
    saved = {name: name for name in TYPES.split()}
    saved |= {"int": "int32", "uint": "uint32", "float": "float32", "double": "float64", "bfloat16": "float32"}
    for kind, dtype in list(saved.items()):
        name = f"Add.Default_Add-{kind}.0.0.{TIME}.output.0.DefaultFormat.{kind}.npy"
        npy("run/rank_0/N/0/0", name, np.ones(1, dtype))


def rename(old: str, new: str) -> None:
    Path(old).rename(new)


def copy(old: str, new: str) -> None:
    shutil.copytree(old, new)


def again(folder: str, later: str) -> None:
    """The files of a folder once more, µs later."""
    for path in list(Path(folder).iterdir()):
        stem, _, stamp = path.name.rpartition(".")
        shutil.copy(path, path.with_name(f"{stem}.{int(stamp) + int(later)}"))


def golden(name: str) -> None:
    shutil.copytree(GOLDEN / name, ".", dirs_exist_ok=True, ignore=shutil.ignore_patterns("expected"))


def dump(name: str, shape: str, whole: str, memory_format: str) -> None:
    """Write one dump file in ``d``: an operator whose output is 0…n in int32, in a memory format (its number)."""
    dims, original = ([int(length) for length in text.split(",")] for text in (shape, whole))
    values = np.arange(np.prod(dims), dtype=np.int32).reshape(dims)
    header = message(outputs=[described("output", values, int(memory_format), original)])
    put(Path("d"), f"{name}.1.{TIME}", dump2(header, values.tobytes()))


def pb(op: str, ending: str = "pb") -> None:
    """The form of a reference's file that is a message with its data behind it."""
    for folder in ("L", "R"):
        content = dump2(message(outputs=[described("output", A)]), A.tobytes())
        put(Path(folder), f"{op}.0.{TIME}.{ending}", content)


def converters(*bodies: Sequence[str]) -> None:
    """Code of a user in ``code/format_convert``: ``NAME=PARAMETERS:RESULT``."""
    for body in bodies:
        name, _, rest = str(body).partition("=")
        parameters, _, result = rest.partition(":")
        text(
            f"code/format_convert/{name}.py",
            f"import numpy as np\n\n\ndef convert({parameters}):\n    return {result}\n",
        )


PROTOTXT = """\
name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape: { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" convolution_param { num_output: 4 } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1" }
"""


def prototxt() -> None:
    text("resnet50.prototxt", PROTOTXT)


def tensor_names() -> None:
    """The list that tfdbg's ``lt`` prints."""
    text("tensor_name", "[0.000] 1.2k MatMul dense/MatMul:0\n[1.200] 1.2k BiasAdd dense/BiasAdd:1\n")


def tied_names() -> None:
    lines = ("MatMul dense/MatMul:0", "BiasAdd dense/BiasAdd:0", "Relu a/Relu:0")
    text("tensor_name", "".join(f"[1.200] 1.2k {line}\n" for line in lines))


def odd_name() -> None:
    npy("odd", "dense_MatMul_0.npy", A)


# Memory formats that a user's code may convert from and to.
_LOOKUPS = "LOOKUP_LOOKUPS LOOKUP_KEYS LOOKUP_VALUE LOOKUP_OUTPUT LOOKUP_HITS"
_DECONV = "FRACTAL_DECONV FRACTAL_DECONV_TRANSPOSE FRACTAL_DECONV_SP_STRIDE_TRANS DECONV_SP_STRIDE8_TRANS"
_BLOCKED = "NC1HWC0 FRACTAL_Z NC1C0HWPAD NHWC1C0 C1HWNC0 NC1HWC0_C04 FRACTAL_Z_C04 NC1KHKWHWC0 C1HWNCoC0 FRACTAL_NZ"
FORMATS = f"NCHW NHWC ND FSR_NCHW CHWN BN_WEIGHT FILTER_HWCK HWCN MD NDHWC {_LOOKUPS} {_DECONV} {_BLOCKED}".split()


def all_converters() -> None:
    """Code that brings NCHW to each of the formats, as it is."""
    converters(*(f"convert_NCHW_to_{name}=shape_from,shape_to,array:array" for name in FORMATS[1:]))


def build(given: str) -> None:
    """Call the builders that a row names, with what follows each: ``name a b + name c``."""
    for call in given.split(" + ") if given else ():
        name, *words = call.split(" ")
        globals()[name](*words)
