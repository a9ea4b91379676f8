"""What a run says of itself, put to its dump: version and device, what it was told to dump, which iterations it ran."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from pytest_msdump.errors import MsdumpError
from pytest_msdump.graphs.execution_order import find_orders, read_order
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.ordering import PARAMETER
from pytest_msdump.model.run import EVERY_ITERATION, DumpConfiguration, RunFacts
from pytest_msdump.model.tensor import Coordinates, TensorRef
from pytest_msdump.readers.ascend import AscendReader
from pytest_msdump.readers.base import EMPTY
from pytest_msdump.readers.converted import ConvertedReader
from pytest_msdump.readers.mindspore import MindSporeReader
from pytest_msdump.readers.run_facts import read_run
from pytest_msdump.readers.run_history import disagreements, read_histories
from pytest_msdump.readers.statistics import READER as STATISTICS

__all__ = ["with_run"]

# Folders of a reference are nobody's run, whatever lies in them.
_OF_RUNS = frozenset({MindSporeReader.name, AscendReader.name, ConvertedReader.name, STATISTICS, EMPTY})
_SCENES = {
    "overflow": "an overflow dump (op_debug_mode 3): it has operators that overflowed, and no others",
    "exception": "an exception dump (op_debug_mode 4): it has the inputs of an operator that raised an exception",
}
_ON_CPU = "an exception dump (op_debug_mode 4), of which MindSpore writes Parameters only on {device}"
_NOTHING = "the run ended before it dumped a tensor: it left nothing but what it was told to dump"
_SAMPLED = "a sampled dump: of each tensor at most {sample} elements along its first axis were saved"


def with_run(dump: Dump) -> Dump:
    """Tell a dump's version, device and configuration by what lies beside it; notes say what does not fit together.

    Parameters
    ----------
    dump : Dump
        With all its tensors; graphs, where there are any, tell which of them ran nothing.

    Returns
    -------
    Dump
        `run` is ``None`` where nothing is said of it. What a configuration says and the tensors contradict is left
        out of it: it is that of an earlier run, since MindSpore does not write it again.
    """
    if dump.reader not in _OF_RUNS or not dump.root.is_dir():
        return dump
    run, notes = read_run(dump.root)
    told = [*dump.notes, *(note for note in notes if note not in dump.notes)]
    if run is not None:
        checked = [_checked(one, dump.refs, told) for one in run.configurations]
        run = replace(run, configurations=tuple(checked))
        told += [note for note in _scenes(run) if note not in told]
        if not dump.refs and not dump.older and not dump.unexplained:
            told.append(_NOTHING)
        dump = _sampled(dump, run)
    histories, failures = read_histories(dump.root)
    told += failures
    told += disagreements(histories, (*dump.refs, *dump.older), ran_nothing=_ran_nothing(dump, run))
    return replace(dump, run=run, notes=tuple(told), labels=_labels(dump, run))


def _sampled(dump: Dump, run: RunFacts) -> Dump:
    """Mark the tensors of ranks that saved samples."""
    if all(one.sample is None for one in run.configurations):
        return dump
    samples = {
        rank: one.sample for rank in {ref.key.op.at.rank for ref in dump.refs} if (one := run.configuration(rank))
    }
    return replace(dump, refs=tuple(replace(ref, sample=samples.get(ref.key.op.at.rank)) for ref in dump.refs))


def _labels(dump: Dump, run: RunFacts | None) -> tuple[tuple[str, str], ...]:
    """The dump's labels, with version and device where its reader does not know of the file that tells them."""
    known = dict(dump.labels)
    if run is not None:
        for name, value in (("ms_version", run.version), ("device_target", run.device)):
            if value is not None:
                known.setdefault(name, value)
    return tuple(sorted(known.items()))


def _scenes(run: RunFacts) -> Iterator[str]:
    for one in run.configurations:
        if one.scene == "exception" and run.device in ("CPU", "GPU"):
            yield _ON_CPU.format(device=run.device)
        elif one.scene:
            yield _SCENES[one.scene]
        if one.sample is not None:
            yield _SAMPLED.format(sample=one.sample)


def _checked(one: DumpConfiguration, refs: Iterable[TensorRef], notes: list[str]) -> DumpConfiguration:
    """Take out of a configuration what tensors of its rank contradict."""
    own = [ref for ref in refs if one.rank is None or ref.key.op.at.rank in (None, one.rank)]
    operators = [ref for ref in own if ref.key.op.op_type != PARAMETER]
    wrong: list[str] = []
    if any(not one.selects_io(ref.key.io) for ref in operators):
        wrong.append(f"{one.io}s only")
        one = replace(one, io="all", scene="" if one.scene == "exception" else one.scene)
    iterations = {ref.key.op.at.iteration for ref in own if ref.key.op.at.iteration is not None}
    if not all(map(one.selects_iteration, iterations)):
        wrong.append(f"iteration {one.iterations!r}")
        one = replace(one, iterations=EVERY_ITERATION)
    if one.kernels and any(one.selects_operator(op) is False for op in {ref.key.op for ref in operators}):
        wrong.append(f"the kernels {one.kernels_text}")
        one = replace(one, kernels=())
    if wrong:
        notes.append(f"{one.source} says {' and '.join(wrong)}, but there are other tensors: it is of another run")
    return one


def _ran_nothing(dump: Dump, run: RunFacts | None) -> Callable[[int, int], bool]:
    """Tell which graphs may have run without a trace: those without operators, or with none that was asked for."""

    def ran_nothing(rank: int, graph: int) -> bool:
        one = run.configuration(rank) if run else None
        if one is not None and (one.kernels or one.scene or one.by_script or one.io != "all"):
            return True
        path = find_orders(dump.root).get(Coordinates(rank=rank, graph=graph))
        try:
            return path is None or not read_order(path)
        except MsdumpError:
            return True

    return ran_nothing
