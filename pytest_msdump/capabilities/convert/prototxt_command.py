"""``msdump prototxt IN``: a Caffe network without in-place layers, so that each layer's output can be dumped."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_msdump.capabilities.frameworks.caffe import shared_bytes
from pytest_msdump.capabilities.graphs.text_proto import PHASES, BlobPlace, CaffeLayer, layers_in_phase, read_layers
from pytest_msdump.cli.output import phrases, print_lines
from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.core.storage.files import read_user_file, write_atomic

# Takes in-place layers out of a Caffe network: each gets a blob of its own, and later layers read that one.

_LARGEST_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Renamed:
    """An in-place top: the layer, the blob that it wrote over, and the one that it has now."""

    layer: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Rewired:
    """A network without in-place layers: its text, the renamed tops in order, and notes on other phases."""

    text: str
    renamed: tuple[Renamed, ...]
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Work:
    """State of a walk over the layers: names in use, what a blob is called now, and what to write where."""

    taken: set[str]
    now: dict[str, str] = field(default_factory=dict)
    edits: list[tuple[BlobPlace, str]] = field(default_factory=list)
    renamed: list[Renamed] = field(default_factory=list)

    def call(self, place: BlobPlace, name: str) -> None:
        if place.name != name:
            self.edits.append((place, name))

    def fresh(self, layer: str) -> str:
        name, number = layer, 1
        while name in self.taken:
            number += 1
            name = f"{layer}_{number}"
        self.taken.add(name)
        return name


def rewire(text: str, *, source: str, phase: str = "TEST") -> Rewired:
    """Give every in-place top of a network a name of its own, by default that of its layer."""
    if phase not in PHASES:
        raise ConfigError(f"phase {phase!r}; it is one of {', '.join(PHASES)}")
    layers = read_layers(text, source=source)
    inside = {id(layer) for layer in layers_in_phase(layers, phase)}
    work = _Work({place.name for layer in layers for place in (*layer.bottoms, *layer.tops)})
    for layer in layers:
        _walk(layer, work, is_inside=id(layer) in inside)
    notes = tuple(_phase_notes(layers, work.renamed, phase))
    return Rewired(_edited(text, work.edits), tuple(work.renamed), notes)


def _walk(layer: CaffeLayer, work: _Work, *, is_inside: bool) -> None:
    in_place = layer.in_place
    for bottom in layer.bottoms:
        work.call(bottom, work.now.get(bottom.name, bottom.name))
    for index, top in enumerate(layer.tops):
        if index in in_place and is_inside:
            new = work.fresh(layer.name)
            work.call(top, new)
            work.renamed.append(Renamed(layer.name, work.now.get(top.name, top.name), new))
            work.now[top.name] = new
        elif index in in_place:
            work.call(top, work.now.get(top.name, top.name))


def _phase_notes(layers: Sequence[CaffeLayer], renamed: Sequence[Renamed], phase: str) -> list[str]:
    other = PHASES[1 - PHASES.index(phase)]
    there = {layer.name for layer in layers_in_phase(layers, other)}
    absent = sorted({entry.layer for entry in renamed} - there)
    if not absent:
        return []
    return [f"good for phase {phase} alone: {other} does not have {', '.join(absent)}, whose blobs are read now"]


def _edited(text: str, edits: Sequence[tuple[BlobPlace, str]]) -> str:
    parts, done = [], 0
    for place, name in sorted(edits, key=lambda edit: edit[0].start):
        quote = text[place.start] if text[place.start] in "\"'" else '"'
        inner = name.replace("\\", "\\\\").replace(quote, "\\" + quote).replace("\n", "\\n")
        parts += [text[done : place.start], quote, inner, quote]
        done = place.stop
    return "".join([*parts, text[done:]])


def rewire_file(file: Path, *, out: Path | None = None, phase: str = "TEST") -> tuple[Path, Rewired]:
    """Write a network without in-place layers beside `file`, as ``new_<name>``, or to `out`; every other byte stays."""
    # Comments may be in any encoding; bytes that are no UTF-8 go through as they are.
    rewired = rewire(_read(file).decode("utf-8", "surrogateescape"), source=str(file), phase=phase)
    content = rewired.text.encode("utf-8", "surrogateescape")
    target = out or file.with_name(f"new_{file.name}")
    if target.exists() and _read(target) != content:
        raise ConfigError(f"{target}: is there already and holds something else; move it away, or name another file")
    try:
        write_atomic(target, content)
    except OSError as error:
        raise MsdumpError(f"{target}: cannot be written: {error.strerror or error}") from error
    return target, rewired


def _read(file: Path) -> bytes:
    return read_user_file(file, _LARGEST_BYTES, want="give the prototxt file of a Caffe network")


DESCRIPTION = (
    "Write new_NAME.prototxt beside a Caffe network: every in-place top gets a name of its own and its consumers read "
    "that, so that a dump holds the output of each layer. Nothing else in the file changes; weights load as before."
)
EXAMPLES = ("msdump prototxt net.prototxt",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the network."""
    parser.add_argument("file", metavar="IN", help="a prototxt file")
    parser.add_argument("-o", "--out", metavar="FILE", help="write to FILE instead of new_NAME.prototxt")
    parser.add_argument(
        "--phase", choices=("TEST", "TRAIN"), default="TEST", help="whose layers to rename; TEST by default"
    )
    parser.add_argument(
        "--reference",
        metavar="DIR",
        help="write nothing; list the layers of this dump that hold the bytes of an in-place layer (exit code 1)",
    )


def run(parsed: argparse.Namespace) -> int:
    """Rewire, write, print; return the exit code."""
    if parsed.reference is not None:
        return _check(parsed)
    out = Path(parsed.out) if parsed.out is not None else None
    target, rewired = rewire_file(Path(parsed.file), out=out, phase=parsed.phase)
    lines = [f"{entry.layer}: {entry.old} -> {entry.new}" for entry in rewired.renamed]
    say, count = phrases(parsed), len(rewired.renamed)
    lines += [say("note", text=note) for note in rewired.notes]
    print_lines([*lines, say("tops_renamed" if count else "tops_none", n=count, file=str(target))])
    return 0


def _check(parsed: argparse.Namespace) -> int:
    if parsed.out is not None:
        raise ConfigError("--reference writes nothing: leave --out out")
    found = shared_bytes(Path(parsed.file), Path(parsed.reference), phase=parsed.phase)
    say = phrases(parsed)
    lines = [say("holds_bytes_of", layer=one.layer, over=one.over, blob=one.blob) for one in found]
    print_lines([*lines, say("make_reference_again" if found else "holds_no_bytes_of", file=parsed.file)])
    return int(bool(found))
