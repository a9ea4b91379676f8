"""Add to a dump what the files beside it say of the run; notes say what does not fit together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from pytest_msdump.capabilities.run_facts.files import read_run
from pytest_msdump.core.dumps.run_history import disagreements, read_histories
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.model.dump import EVERY_ITERATION, PARAMETER, Dump, DumpConfiguration, RunFacts
from pytest_msdump.core.model.tensor import Coordinates, TensorRef
from pytest_msdump.core.ports import IndexRequest
from pytest_msdump.core.text import Message, say
from pytest_msdump.dumps.graphs.execution_order import find_orders, read_order


def with_run(dump: Dump, request: IndexRequest) -> Dump:  # noqa: ARG001 - as every stage takes it
    """Add version, device and configuration from the files beside a dump; notes say what does not fit together."""
    if not dump.root.is_dir():
        return dump
    run, notes = read_run(dump.root)
    notes_now = [*dump.notes, *(note for note in notes if note not in dump.notes)]
    if run is not None:
        checked = [_checked(one, dump.refs, notes_now) for one in run.configurations]
        run = replace(run, configurations=tuple(checked))
        notes_now += [note for note in _scenes(run) if note not in notes_now]
        if not dump.refs and not dump.older and not dump.unexplained:
            notes_now.append(say(Message("note_ended_early")))
        dump = _sampled(dump, run)
    histories, failures = read_histories(dump.root)
    notes_now += failures
    notes_now += disagreements(histories, (*dump.refs, *dump.older), ran_nothing=_ran_nothing(dump, run))
    return replace(dump, run=run, notes=tuple(notes_now), labels=_labels(dump, run))


def _sampled(dump: Dump, run: RunFacts) -> Dump:
    """Mark the tensors of ranks that saved samples."""
    if all(one.sample is None for one in run.configurations):
        return dump
    samples = {
        rank: one.sample for rank in {ref.key.op.at.rank for ref in dump.refs} if (one := run.configuration(rank))
    }
    return replace(dump, refs=tuple(replace(ref, sample=samples.get(ref.key.op.at.rank)) for ref in dump.refs))


def _labels(dump: Dump, run: RunFacts | None) -> tuple[tuple[str, str], ...]:
    """Return the dump's labels, with version and device if its reader does not know their file."""
    known = dict(dump.labels)
    if run is not None:
        for name, value in (("ms_version", run.version), ("device_target", run.device)):
            if value is not None:
                known.setdefault(name, value)
    return tuple(sorted(known.items()))


def _scenes(run: RunFacts) -> Iterator[str]:
    for one in run.configurations:
        if one.scene == "exception" and run.device in ("CPU", "GPU"):
            yield say(Message("note_exception_on", {"device": run.device}))
        elif one.scene:
            yield say(Message(f"note_{one.scene}_dump"))
        if one.sample is not None:
            yield say(Message("note_sampled_dump", {"sample": one.sample}))


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
    """Return whether a graph may have run without a trace: it has no operators, or none that was to be dumped."""

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
