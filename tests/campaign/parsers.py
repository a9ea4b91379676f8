"""Every parser of this package that takes bytes or text from outside, each with real files to begin from."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, redirect_stderr, redirect_stdout, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from graphs.test_ge_text import ONNX, PROTO
from report import samples
from report.test_reporting_json import a_report

from pytest_msdump.capabilities.ascend.dump_file import open_dump_file
from pytest_msdump.capabilities.cache.cache import CacheFile
from pytest_msdump.capabilities.compat.mscmp_advisor import _read as read_vendor_table
from pytest_msdump.capabilities.compat.mscmp_advisor import advice
from pytest_msdump.capabilities.config.check import check_config
from pytest_msdump.capabilities.config.command import _read as read_configuration
from pytest_msdump.capabilities.config.command import explain
from pytest_msdump.capabilities.config.keys import MODES, REFUSED, Setting, would_dump
from pytest_msdump.capabilities.convert.dump_files import KINDS, array_name
from pytest_msdump.capabilities.convert.prototxt_command import rewire
from pytest_msdump.capabilities.convert.renaming import compile_pattern, parts_of, read_undo
from pytest_msdump.capabilities.convert.sources import short_name
from pytest_msdump.capabilities.frameworks.tf_graphs import print_commands, read_listing
from pytest_msdump.capabilities.graphs.execution_order import read_order
from pytest_msdump.capabilities.graphs.ge_model import read_model
from pytest_msdump.capabilities.graphs.graph_files import parse_ge_onnx, parse_ge_proto, read_graph
from pytest_msdump.capabilities.graphs.ir import attributes_text, parse_attributes, parse_ir
from pytest_msdump.capabilities.graphs.ms_pb import parse_pb
from pytest_msdump.capabilities.graphs.source_lines import operators_at, user_frames
from pytest_msdump.capabilities.hook_dumps.reader import SglangDumperReader, parse_dumper_name
from pytest_msdump.capabilities.inspect.file import file_header
from pytest_msdump.capabilities.overflow.opdebug import read_overflow_file
from pytest_msdump.capabilities.run_facts.indexing import read_run
from pytest_msdump.capabilities.tensor_files.torch_pickle import tensors_in, value_in
from pytest_msdump.capabilities.weights.weights import load
from pytest_msdump.cli import main as command
from pytest_msdump.core.compare.opening import index, open_logical
from pytest_msdump.core.dumps.dump_tree import mindspore_place, place_of
from pytest_msdump.core.dumps.file_names import (
    parse_ascend,
    parse_converted,
    parse_converted_bin,
    parse_flat,
    parse_flat_npy,
    parse_mindspore,
    parse_opdebug,
    parse_protobuf,
    parse_reference,
)
from pytest_msdump.core.dumps.manifest import read_manifest
from pytest_msdump.core.dumps.npy import open_npy
from pytest_msdump.core.dumps.run_history import parse_history
from pytest_msdump.core.dumps.sidefiles import read_kernel_args, read_mapping, read_run_labels
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.limits.policy import Policy
from pytest_msdump.core.matching.coordinates import parse_align
from pytest_msdump.core.matching.rules import FusionRules, combined
from pytest_msdump.core.matching.selection import parse_address
from pytest_msdump.core.model.dump import OperatorGraph
from pytest_msdump.core.model.tensor import Coordinates, OpKey, TensorKey, TensorRef, TensorSource, TensorSpec
from pytest_msdump.core.report.json_report import document, read_json, report_from
from pytest_msdump.core.settings.options import (
    parse_count,
    parse_coverage,
    parse_jobs,
    parse_report,
    parse_spec,
)
from pytest_msdump.core.storage.locations import is_url, parse_location
from pytest_msdump.core.suite import load_suite
from pytest_msdump.core.suite.keys import parse_threshold
from pytest_msdump.core.suite.load import dumped_path

__all__ = ["PARSERS", "Parser", "Seed"]

DATA = Path(__file__).parents[1] / "data"
EXAMPLES = Path(__file__).parents[2] / "example_suites"
# Larger files say no more, and take longer.
LARGEST_SEED = 2**16
# Of a tensor whose header claims very many elements, the first are read.
MOST_ELEMENTS = 2**16
MOST_SEEDS = 40
# Of a message; a name may have 4096, and stand in it twice.
MOST_LETTERS = 10_000


class Seed(NamedTuple):
    """A real file: what it is called, what is in it, and for a file of a dump the dump and its place there."""

    name: str
    content: bytes
    root: Path | None = None


class Parser(NamedTuple):
    """`run` takes the file that was made of a seed and raises what the parser raises; `weight` says how often."""

    name: str
    seeds: Callable[[], Sequence[Seed]]
    run: Callable[[Path], object]
    weight: int = 2


# -- seeds -------------------------------------------------------------------------------------------------------------


@cache
def _files() -> tuple[Path, ...]:
    paths = (path for root in (DATA, EXAMPLES) for path in root.rglob("*"))
    return tuple(sorted(path for path in paths if path.is_file() and not path.is_symlink()))


def _found(*globs: str, most: int = MOST_SEEDS) -> Callable[[], Sequence[Seed]]:
    """Files whose names match, spread over all that there are."""

    @cache
    def found() -> tuple[Seed, ...]:
        paths = [path for path in _files() if any(path.match(glob) for glob in globs)]
        paths = [path for path in paths if path.stat().st_size <= LARGEST_SEED]
        return tuple(Seed(path.name, path.read_bytes()) for path in paths[:: max(1, len(paths) // most)])

    return found


def _made(name: str, *contents: str | bytes) -> Callable[[], Sequence[Seed]]:
    return lambda: [Seed(name, one.encode() if isinstance(one, str) else one) for one in contents]


def _both(*sources: Callable[[], Sequence[Seed]]) -> Callable[[], Sequence[Seed]]:
    return lambda: [seed for source in sources for seed in source()]


@cache
def _arrays() -> tuple[Seed, ...]:
    """Arrays of every kind that numpy writes, and of all versions of its header."""
    found = []
    kinds = ("<f4", ">f8", "<f2", "?", "<i8", "|u1", "<c8", "<U3", "S5", "V2", "<M8[s]")
    for number, kind in enumerate(kinds):
        for shape in ((), (3,), (2, 3, 4), (0, 5)):
            stream = io.BytesIO()
            array = np.zeros(shape, kind)
            version = ((1, 0), (2, 0), (3, 0))[number % 3]
            np.lib.format.write_array(stream, np.asfortranarray(array) if number % 2 else array, version)
            found.append(Seed(f"conv1.0.16000000000000{number:02}.npy", stream.getvalue()))
    return tuple(found)


@cache
def _dumps() -> tuple[Seed, ...]:
    """Files of Ascend dumps of all containers, whose names have no suffix."""
    folders = [path for path in (DATA / "ascend_golden").rglob("*") if path.is_dir()] + [DATA / "generations"]
    files = sorted({path for folder in folders for path in folder.rglob("*") if path.is_file()})
    files = [path for path in files if parse_ascend(path.name) and path.stat().st_size <= LARGEST_SEED]
    return tuple(Seed(path.name, path.read_bytes()) for path in files[:: max(1, len(files) // 150)])


@cache
def _protobufs() -> tuple[Seed, ...]:
    """What Caffe's and TensorFlow's references are kept in, under both suffixes."""
    found = _found("*.[0-9]*.pb")()
    return (*found, *(Seed(seed.name.replace(".pb", ".quant"), seed.content) for seed in found))


@cache
def _trees() -> tuple[Seed, ...]:
    """Files of small dumps, of which any may be damaged while the others are whole."""
    roots = [DATA / "run_facts" / "whole", DATA / "hazards" / "rerun_same_dir"]
    roots += [path for path in sorted((DATA / "generations").iterdir()) if path.is_dir()]
    roots += [path / side for path in sorted((DATA / "ascend_golden").iterdir()) for side in ("left",)]
    roots += [path for name in ("msprobe", "hooks") for path in sorted((DATA / name).iterdir()) if path.is_dir()]
    roots += sorted(path for path in (DATA / "ascend_golden" / "h_overflow").iterdir() if path.is_dir())
    found = []
    for root in roots:
        files = sorted(path for path in root.rglob("*") if path.is_file()) if root.is_dir() else []
        if not files or len(files) > 120 or sum(path.stat().st_size for path in files) > 2**22:
            continue
        files = [path for path in files if path.stat().st_size <= LARGEST_SEED]
        # What is beside tensors says more, and is there once.
        files.sort(key=lambda path: path.suffix == ".npy")
        found += [Seed(path.relative_to(root).as_posix(), path.read_bytes(), root) for path in files[:25]]
    return tuple(found)


@cache
def _names() -> tuple[Seed, ...]:
    below = {path.relative_to(DATA).as_posix() for path in _files() if path.is_relative_to(DATA)}
    names = sorted({path.name for path in _files()} | below)
    return tuple(Seed("name", name.encode("utf-8", "surrogateescape")) for name in names[:: len(names) // 300])


@cache
def _saved() -> tuple[Seed, ...]:
    """Reports with records of several kinds."""
    records = [samples.drifted(), samples.passed(), samples.unreadable()]
    kinds = (records, records[:1], records[1:2], records[2:])
    return tuple(Seed("results.json", json.dumps(document(a_report(list(one)))).encode()) for one in kinds)


@cache
def _weights() -> tuple[Seed, ...]:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in (("conv.weight", np.ones((2, 3), np.float32)), ("conv.bias", np.zeros(2, np.float16))):
            member = io.BytesIO()
            np.save(member, array)
            archive.writestr(f"{name}.npy", member.getvalue())
    plain = io.BytesIO()
    np.savez_compressed(plain, a=np.arange(6.0), b=np.array(3))
    return Seed("w.npz", stream.getvalue()), Seed("w.npz", plain.getvalue())


@cache
def _pickles() -> tuple[Seed, ...]:
    """What describes the tensors in files of torch.save."""
    found = []
    for seed in _found("*.pt", "*.pth")():
        if zipfile.is_zipfile(io.BytesIO(seed.content)):
            with zipfile.ZipFile(io.BytesIO(seed.content)) as archive:
                names = [name for name in archive.namelist() if name.endswith("data.pkl")]
                found += [Seed("data.pkl", archive.read(name)) for name in names]
    return tuple(found)


_SUITE = """[msdump]
left = { path = "target", rank = 0, iteration = "0|2-3" }
right = "reference"
fusion = "fusion.json"
graph_files = ["trace_code_graph_0.ir"]
profile = "strict"
io = "all"
nan = "forbid"
min_coverage = "90%"
right_format = "NHWC"
select = ["Default/*", "conv1:output:0"]
align = { iteration = "9->0, 10->1", net = "A->B" }
pair_by = ["map", "name"]
granularity = "tensor"
report = "json,csv"

[[msdump.map]]
left = "Default/conv{i}-Conv2d/BiasAdd-op0:output:0"
right = "conv{i}"
reshape = true
transpose = [0, 3, 1, 2]

[[msdump.rule]]
match = "*"
op_type = ["MatMul", "Conv2D"]
dtype = "float16"
cosine_similarity = { fail = 0.99, warn = 0.999 }
max_relative_error = 1e-2

[[msdump.known_drift]]
match = "softmax_*"
reason = "exp approximation"
until = 2027-01-31
max_relative_error = 4e-3
"""
_PROTOTXT = """name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape: { dim: 1 dim: 3 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1" param { lr_mult: 1 } include { phase: TRAIN } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" } # in place
layers { name: 'fc' type: INNER_PRODUCT bottom: "conv1" top: "fc" exclude: { phase: TEST } }
"""
_TFDBG = """3 dumped tensor(s):

t (ms) Size (B) Op type Tensor name
[0.000] 180 VariableV2 w/read:0
[12.500] 1.20k MatMul model/dense/MatMul:0
[12.600] 1.20k Add model/dense/add:1
"""
_MANIFEST = json.dumps(
    {
        "schema_version": 1,
        "framework": "torch",
        "version": "2",
        "seeds": {"torch": 3},
        "inputs": {"x": "ab"},
        "weights": {},
        "command": ["python", "a.py"],
        "complete": True,
        "tensors": {"a.0.1.npy": {"op": "a", "io": "output", "slot": 0, "dtype": "float32", "line": "net.py:3"}},
        "graph": [{"name": "a", "type": "Conv2d", "occurrence": 1, "inside": "net", "inputs": [["b", 0, 1], None]}],
    }
)
_JOURNAL = '{"file": "a.0.1.npy", "op": "a", "io": "output", "slot": 0, "dtype": "float32"}\n' * 3
_TABLE = (
    "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value,Avg Value,Count,"
    "Negative Zero Count,NaN Count,L2Norm Value,MD5\n"
    'ReLU,Default/relu-op0,0,0,1795260154554669,output,0,96,float32,"(2,3,4)",'
    "1.5,-inf,nan,24,0,0,3.25e-1,0123456789abcdef0123456789abcdef\n"
)
_ADVISOR = "Index,OpType,NPUDump,DataType,CosineSimilarity\n0,Conv2D,conv1,float32,0.99\n1,Relu,r,,NaN\n"
_ACL = (
    '{"dump": {"dump_path": "/d", "dump_mode": "all", "dump_step": "0|2-3", '
    '"dump_list": [{"model_name": "m", "layer": ["a"]}]}}'
)
_OPERATORS = ["Default/conv1-Conv2d/Conv2D-op0", "conv1"]
_CACHE = b"".join(
    b"%s %s %s\n" % (key, hashlib.sha256(text).hexdigest()[:32].encode(), text)
    for key, text in ((b"0" * 32, b'{"verdict": "pass"}'), (b"1" * 32, b"[1, 2]"))
)
_SPECS = (
    "0|2-3",
    "all",
    "cosine=0.999",
    "9->0, 10->1",
    "90%",
    "json,csv",
    "a:output:0",
    "TYPE.op:input:1",
    "s3://b/k",
    "4",
)


# -- what is asked of each ---------------------------------------------------------------------------------------------


def _text(file: Path) -> str:
    return file.read_bytes().decode("utf-8", "surrogateescape")


def _read_all(refs: Iterable[TensorRef]) -> None:
    """Read tensors as a comparison does; what is wrong with one is its own error and nobody else's."""
    for ref in islice(refs, 40):
        _unless_refused(_read_one, ref)


def _read_one(ref: TensorRef) -> None:
    with closing(open_logical(ref)) as view:
        count = min(view.size, MOST_ELEMENTS)
        if len(view.read(0, count)) != count:
            raise AssertionError(f"{ref.key.address}: has fewer elements than it says")
        if view.size > count:
            view.read(view.size - 1, view.size)


def _unless_refused(call: Callable[[Any], object], value: object) -> None:
    try:
        call(value)
    except MsdumpError as error:
        said_well(error)


def said_well(error: BaseException) -> None:
    """An error of ours is a line or a few, not what was read."""
    text = str(error)
    if len(text) > MOST_LETTERS or text.count("\n") > 3:
        raise AssertionError(f"a message of {len(text)} letters and {text.count(chr(10))} breaks: {text[:100]!r}")


def _dump(root: Path) -> None:
    dump = index(root)
    for note in dump.notes:
        if len(note) > MOST_LETTERS:
            raise AssertionError(f"a note of {len(note)} letters: {note[:100]!r}")
    _read_all(dump.refs)
    file_header(root)


def _placed(file: Path) -> None:
    SglangDumperReader().with_placements(index(file.parent))


def _tree(root: Path) -> None:
    _read_all(index(root).refs)


def _compared(root: Path) -> None:
    """The whole program, with the damaged dump on either side of the whole one."""
    for sides in ((root, root.with_name("whole")), (root.with_name("whole"), root)):
        out, told = io.StringIO(), io.StringIO()
        words = ["compare", *map(str, sides), "--report-dir", str(root.with_name("report")), "--quiet", "--io", "all"]
        with redirect_stdout(out), redirect_stderr(told):
            code = command([*words, "--report", "json,csv,md", "--spread", "failing"])
        if code not in (0, 1, 4) or (code == 4 and told.getvalue().count("\n") != 1):
            raise AssertionError(f"exit code {code}, and said: {told.getvalue()[:300]}")


def _array(file: Path) -> None:
    with closing(open_npy(file, TensorSpec(None, None))) as view:
        view.read(0, min(view.size, MOST_ELEMENTS))


def _header(file: Path) -> None:
    opened = open_dump_file(file)
    opened.file.close()


def _graph(graph: OperatorGraph) -> None:
    """What is asked of any graph."""
    for operator in graph.operators[:50]:
        user_frames(operator)
        parse_attributes(operator.attributes)
    operators_at(graph, "net.py:3")


def _ir(file: Path) -> None:
    data = file.read_bytes()
    _graph(parse_ir(data, source=file.name))
    for line in data.decode("utf-8", "replace").splitlines()[:20]:
        parse_attributes(attributes_text(line))


def _ms_pb(file: Path) -> None:
    _graph(parse_pb(file.read_bytes(), source=file.name))


def _ge_proto(file: Path) -> None:
    _graph(parse_ge_proto(_text(file), source=file.name))


def _ge_onnx(file: Path) -> None:
    _graph(parse_ge_onnx(_text(file), source=file.name))


def _model(file: Path) -> None:
    graph = read_model(file)
    combined(FusionRules(model=graph, quant=graph))
    combined(FusionRules(model=graph, close=graph))
    combined(FusionRules(quant=graph))


def _kernel_args(file: Path) -> None:
    op = OpKey("a", Coordinates(), "T")
    file.rename(file.with_name("T.a.json"))
    source = TensorSource.of(file.with_name("x.npy"), 0)
    read_kernel_args(TensorRef(TensorKey(op, "output", 0), TensorSpec(None, None), source, "npy"))


def _overflow(file: Path) -> None:
    parsed = parse_opdebug(file.name)
    if parsed is None:
        raise AssertionError(f"{file.name}: is no name of an overflow file")
    found = read_overflow_file(file, parsed)
    if len(found.problem) > MOST_LETTERS:
        raise AssertionError(f"a problem of {len(found.problem)} letters")


def _suite(file: Path) -> None:
    suite = load_suite(file=file, options={}, directory=file.parent, environ={})
    repr(suite.policy)


def _configuration(file: Path) -> None:
    document = read_configuration(file)
    for mode in (None, *MODES):
        for version in ((2, 10), (1, 3)):
            found = check_config(document, setting := Setting(version, mode), names=_OPERATORS)
            list(explain(document, setting))
            if all(one.level != REFUSED for one in found):
                would_dump(document, _OPERATORS, setting)


def _run(file: Path) -> None:
    """A configuration beside a dump, in both of its places."""
    root = file.parent / "run"
    metadata = root / "rank_0" / ".dump_metadata"
    metadata.mkdir(parents=True)
    shutil.copy(file, metadata / "data_dump.json")
    shutil.copy(file, metadata / "config.json")
    shutil.copy(file, root / "acl_dump_0.json")
    read_run(root)
    read_run_labels(metadata / "config.json")


def _results(file: Path) -> None:
    """Read and judge again what was saved; no other answer than the command's is looked at."""
    report_from(read_json(file), place=file.name)
    for words in (["check", str(file)], ["check", str(file), "--profile", "bitwise", "--lang", "zh"]):
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as told:
            code = command(words)
        if code not in (0, 1):
            raise AssertionError(f"exit code {code}, and said: {told.getvalue()[:300]}")


def _names_of(file: Path) -> None:
    text = file.read_bytes().decode("utf-8", "surrogateescape")
    name = text.replace("/", "_")
    for parse in (
        parse_ascend, parse_protobuf, parse_converted, parse_converted_bin, parse_reference, parse_mindspore,
        parse_flat, parse_flat_npy, parse_opdebug, parse_dumper_name, short_name,
    ):  # fmt: skip
        parse(name)
    for kind in (None, *KINDS):
        array_name(name, kind)
    parts = tuple(part for part in text.split("/") if part)
    mindspore_place(Path("/d"), parts)
    place_of(Path("/d"), parts)


def _each(calls: Sequence[Callable[[str], object]]) -> Callable[[Path], None]:
    """Ask each of several readers of what was typed, and may be quoted whole; what one refuses, another may read."""

    def run(file: Path) -> None:
        text = _text(file)
        for call in calls:
            with suppress(MsdumpError):
                call(text)

    return run


def _patterns(text: str) -> None:
    pattern, _, name = text.partition("\n")
    parts_of(name, compile_pattern(pattern))


def _environment(file: Path) -> None:
    dumped_path({"MINDSPORE_DUMP_CONFIG": str(file)}, file.parent, "--left")


def _policy(text: str) -> None:
    metric, value = parse_threshold(text)
    Policy(thresholds={metric: value})


def _history(file: Path) -> None:
    try:
        parse_history(_text(file))
    except ValueError as error:
        said_well(error)


def _pickle(file: Path) -> None:
    try:
        tensors_in(value_in(file.read_bytes()))
    except ValueError as error:
        said_well(error)


def _cache(file: Path) -> None:
    kept = CacheFile(file.parent, file.stem)
    for key in (b"0" * 32, b"1" * 32):
        kept.get(key.decode())


def _vendor_table(file: Path) -> None:
    titles, rows = read_vendor_table(file)
    advice(titles, rows)


def _listing(file: Path) -> None:
    for _ in print_commands(read_listing(_text(file), source=file.name), first=10**15):
        pass


def _located(text: str) -> None:
    is_url(text)
    parse_location(text, Path("/d"), where="--left")


_READERS: Sequence[Callable[[str], object]] = (
    parse_spec,
    _policy,
    lambda text: parse_align({"iteration": text}, where="align"),
    lambda text: parse_align({"net": text}, where="align"),
    lambda text: parse_coverage(text, flag=True),
    lambda text: parse_coverage(text, flag=False),
    parse_report,
    parse_jobs,
    parse_count,
    parse_address,
    _located,
)

PARSERS: dict[str, Parser] = {
    parser.name: parser
    for parser in (
        Parser("npy", _both(_arrays, _found("*.npy")), _array, 4),
        Parser("dump file", _dumps, _dump, 6),
        Parser("dump header", _dumps, _header, 6),
        Parser("reference .pb and .quant", _protobufs, _dump, 3),
        Parser("raw .bin", _found("*.bin"), lambda file: _tree(file.parent)),
        Parser("file of a dump", _trees, _tree, 3),
        Parser("comparison", _trees, _compared, 1),
        Parser("overflow file", _found("Opdebug*"), _overflow, 3),
        Parser("statistics", _both(_found("statistic*.csv"), _made("statistic.csv", _TABLE)), _dump, 3),
        Parser("IR text", _found("*.ir", most=14), _ir, 5),
        Parser("IR protobuf", _found("ms_output*.pb"), _ms_pb, 5),
        Parser("GE proto text", _made("a.txt", PROTO), _ge_proto, 3),
        Parser("GE ONNX text", _made("a.pbtxt", ONNX), _ge_onnx, 3),
        Parser("graph of any kind", _both(_found("*.ir", most=6), _made("a.txt", PROTO, ONNX)), read_graph),
        Parser("model JSON", _both(_found("fusion.json", "quant.json")), _model, 6),
        Parser("execution order", _found("ms_execution_order*.csv"), read_order),
        Parser("iterations that ran", _found("ms_global*.csv"), _history, 1),
        Parser("mapping.csv", _both(_found("mapping.csv"), _made("mapping.csv", "1.npy,a/b\n2.npy,c\n")), read_mapping),
        Parser("manifest", _made("msdump.json", _MANIFEST), lambda file: read_manifest(file.parent), 3),
        Parser("journal", _made("msdump.journal", _JOURNAL), lambda file: read_manifest(file.parent), 2),
        Parser("configuration of a run", _both(_found("*data_dump.json"), _made("a.json", _ACL)), _run),
        Parser("dump configuration", _both(_found("*data_dump.json"), _made("acl.json", _ACL)), _configuration, 3),
        Parser("@env", _found("*data_dump.json"), _environment, 1),
        Parser("arguments of a kernel", _made("a.json", '{"pad": "same", "dims": [1, 2]}'), _kernel_args, 1),
        Parser("suite", _both(_found("*.toml"), _made("msdump.toml", _SUITE, _SUITE)), _suite, 4),
        Parser("results.json", _saved, _results, 4),
        Parser("cache", _made("x.comparisons", _CACHE), _cache, 1),
        Parser("prototxt", _made("a.prototxt", _PROTOTXT), lambda file: rewire(_text(file), source="a"), 3),
        Parser("weights", _weights, load, 3),
        Parser("file of torch.save", _found("*.pt", "*.pth"), _dump, 4),
        Parser("what a dumped file says", _found("step=*.pt"), _placed, 2),
        Parser("file of a runtime", _both(_found("onnx/*/*/*.pb"), _found("polygraphy/*.json")), _dump, 3),
        Parser("log of DebugMode", _found("debug_mode/*.json"), _dump, 3),
        Parser("pickle of tensors", _pickles, _pickle, 4),
        Parser("list of tfdbg", _made("list", _TFDBG), _listing, 1),
        Parser("undo file", _made("u.json", '{"schema_version": 1, "renamed": [["a.npy", "b.npy"]]}'), read_undo, 1),
        Parser("vendor's table", _both(_found("result.csv"), _made("t.csv", _ADVISOR)), _vendor_table),
        Parser("file names", _names, _names_of, 5),
        Parser("options", _made("o", *_SPECS), _each(_READERS)),
        Parser("patterns of names", _made("p", "{op}.{slot}.npy\na.0.npy", "(?P<op>.*)_x\nb_x"), _each([_patterns]), 1),
    )
}
