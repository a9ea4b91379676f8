"""The rule files of a comparison: what they say together, and which operators stand for the same originals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from pytest_msdump.core import ports
from pytest_msdump.core.errors import nearest
from pytest_msdump.core.facts.operators import QUANT_TYPES, SURE_QUANTISED_FRAGMENTS
from pytest_msdump.core.matching.selection import Selection
from pytest_msdump.core.model.describe import listed
from pytest_msdump.core.model.dump import Dump, Operator, OperatorGraph, OriginOutput
from pytest_msdump.core.model.report import NetworkOperator
from pytest_msdump.core.model.tensor import Pair, Pairing
from pytest_msdump.core.text import Message, say


class FusionRules(NamedTuple):
    """The rule files that were given."""

    model: OperatorGraph | None = None
    quant: OperatorGraph | None = None
    close: OperatorGraph | None = None

    @property
    def given(self) -> frozenset[str]:
        """Which of ``"model"``, ``"quant"`` and ``"close"`` there are."""
        return frozenset(name for name in ("model", "quant", "close") if getattr(self, name) is not None)

    @property
    def base(self) -> OperatorGraph | None:
        """The model whose operators the left side dumped."""
        return self.model or self.quant

    @property
    def label(self) -> str:
        """The files' names, as messages show them."""
        return " with ".join(graph.source for graph in (self.model, self.quant, self.close) if graph is not None)


def combined(rules: FusionRules) -> OperatorGraph:
    """Return the left side's operators, each with the names that the right side uses for its originals."""
    base = with_origins(rules.base or OperatorGraph())
    if rules.model is None:
        return base
    if rules.close is not None:
        return _through_close(base, with_origins(rules.close))
    return base if rules.quant is None else _through_quantisation(base, with_origins(rules.quant))


def _through_quantisation(model: OperatorGraph, quant: OperatorGraph) -> OperatorGraph:
    known = {operator.name: operator for operator in quant.operators}

    def origin(output: OriginOutput) -> OriginOutput:
        operator = known.get(output.name)
        if operator is None:
            return output
        if output.index < len(operator.outputs):
            found = operator.outputs[output.index]
            return replace(output, name=found.name, index=found.index)
        # A file that lists no outputs leaves their numbers as they are.
        alone = not operator.outputs and len(operator.originals) == 1
        return replace(output, name=operator.originals[0] if alone else "")

    def renamed(operator: Operator) -> Operator:
        names = (known[name].originals if name in known else (name,) for name in operator.originals)
        return replace(operator, originals=_distinct(names), outputs=tuple(map(origin, operator.outputs)))

    return model._replace(operators=tuple(map(renamed, model.operators)))


def _through_close(model: OperatorGraph, close: OperatorGraph) -> OperatorGraph:
    places: dict[tuple[str, int], tuple[str, int]] = {}
    hosts: dict[str, dict[str, None]] = {}
    for operator in close.operators:
        # Where several operators make one original's output, the last of them has all of it.
        places.update({(out.name, out.index): (operator.name, k) for k, out in enumerate(operator.outputs) if out.name})
        for original in operator.originals:
            hosts.setdefault(original, {})[operator.name] = None

    def origin(output: OriginOutput) -> OriginOutput:
        name, index = places.get((output.name, output.index), (output.name, output.index))
        return replace(output, name=name, index=index)

    def renamed(operator: Operator) -> Operator:
        names = (hosts.get(name, (name,)) for name in operator.originals)
        return replace(operator, originals=_distinct(names), outputs=tuple(map(origin, operator.outputs)))

    return model._replace(operators=tuple(map(renamed, model.operators)))


def _distinct(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for group in groups for name in group))


class FusedGroup(NamedTuple):
    """One or more operators of the compiled model, in its order, and the operators of the original model they were."""

    number: int
    operators: tuple[Operator, ...]
    originals: tuple[str, ...]
    relation: str


def group_operators(graph: OperatorGraph) -> tuple[FusedGroup, ...]:
    """Group the operators that have the same originals, or are of one L1 fusion group; each is in exactly one."""
    members: dict[tuple[str, ...] | str, list[Operator]] = {}
    for operator in graph.operators:
        key = f"L1 {operator.l1_group}" if operator.l1_group else operator.originals or f"inserted {operator.name}"
        members.setdefault(key, []).append(operator)
    return tuple(
        FusedGroup(
            number, tuple(operators), _distinct(operator.originals for operator in operators), _relation(operators)
        )
        for number, operators in enumerate(members.values())
    )


def _relation(operators: list[Operator]) -> str:
    first = operators[0]
    if first.l1_group:
        return "L1"
    if not first.originals:
        return "inserted"
    return f"{'one' if len(first.originals) == 1 else 'many'}-to-{'one' if len(operators) == 1 else 'many'}"


def with_origins(graph: OperatorGraph) -> OperatorGraph:
    """Where one operator alone stands for one original, let its outputs without an origin be that original's."""
    # Most models of up to 100,000 operators lack nothing.
    if all(output.name for operator in graph.operators for output in operator.outputs):
        return graph
    renamed: dict[str, Operator] = {}
    for group in group_operators(graph):
        if group.relation == "one-to-one":
            (operator,), (original,) = group.operators, group.originals
            outputs = tuple(output if output.name else replace(output, name=original) for output in operator.outputs)
            renamed[operator.name] = replace(operator, outputs=outputs)
    return graph._replace(operators=tuple(renamed.get(operator.name, operator) for operator in graph.operators))


def network_of(graph: OperatorGraph) -> tuple[NetworkOperator, ...]:
    """Return a combined graph's operators by group, for the report; ``*`` stands for no original."""
    return tuple(
        NetworkOperator(
            group.number,
            operator.id,
            operator.name,
            operator.op_type,
            tuple(each.name for each in group.operators),
            group.originals or ("*",),
            group.relation,
        )
        for group in group_operators(graph)
        for operator in group.operators
    )


# Whether the rule files that were given are those which a pair of dumps needs.

# By the reader that knew a dump.
_KIND_OF_READER = {
    "ascend": "device",
    "converted": "device",
    "npy-folder": "original",
    "npy-file": "original",
    "npy-tree": "original",
    "npz": "original",
    "safetensors": "original",
    "torch-file": "original",
    "proto-folder": "original",
}

_FLAGS = {
    "model": "the model's JSON (--msdump-fusion)",
    "quant": "the quantisation rules of AMCT (--msdump-quant-fusion)",
    "close": "the JSON of the model compiled with fusion off (--msdump-close-fusion)",
}

# The vendor's table of what can be compared with what: (left, right) → sets of rule files, any of which will do; the
# first is the one to recommend. An Ascend dump is "device", one of Caffe, TensorFlow or ONNX "original".
_NEEDED: Mapping[tuple[str, str], Sequence[frozenset[str]]] = {
    ("device", "original"): [frozenset({"model"})],
    ("quantised device", "original"): [frozenset({"model", "quant"})],
    ("quantised original", "original"): [frozenset({"quant"})],
    ("quantised device", "quantised original"): [frozenset({"model"})],
    ("device", "quantised original"): [frozenset({"model"})],
    ("device", "device"): [frozenset(), frozenset({"model", "close"})],
    ("quantised device", "quantised device"): [frozenset(), frozenset({"model", "close"})],
}

_SHOWN = {
    "device": "an Ascend dump",
    "original": "an original model's dump",
    "other": "a dump",
    "quantised device": "a quantised Ascend dump",
    "quantised original": "a quantised original model's dump",
    "quantised other": "a quantised dump",
}


class DumpKind(NamedTuple):
    """What wrote a dump, as far as its index says."""

    family: str
    quantised: bool = False

    @property
    def label(self) -> str:
        """E.g. ``"quantised device"``."""
        return f"quantised {self.family}" if self.quantised else self.family


class Advice(NamedTuple):
    """One line about rule files; `is_wrong` for a wrong file, not for one that is not given but would help."""

    sentence: str
    is_wrong: bool


def kind_of(dump: Dump) -> DumpKind:
    """Return what wrote a dump, by its reader and its index."""
    # One text of all names: a dump has many, and each fragment would be sought in each of them.
    labels = "\n".join({ref.key.op.label for ref in dump.refs})
    quantised = (
        any(fragment in labels for fragment in SURE_QUANTISED_FRAGMENTS)
        or not QUANT_TYPES.isdisjoint({ref.key.op.op_type for ref in dump.refs})
        or any(ref.source.name.endswith(".quant") for ref in dump.refs)
    )
    return DumpKind(_KIND_OF_READER.get(dump.reader, "other"), quantised)


def rules_for(left: Dump, right: Dump, rules: FusionRules) -> Advice | None:
    """Say in one line which rule files two dumps need, when others or none were given; ``None`` when all is well."""
    if not rules.given and not {left.reader, right.reader} <= _KIND_OF_READER.keys():
        return None
    ours, theirs = kind_of(left), kind_of(right)
    needed = _NEEDED.get((ours.label, theirs.label), [frozenset()])
    pair = _SHOWN[ours.label] + " against " + _SHOWN[theirs.label].replace("'s dump", "'s")
    if wrong := _wrong(ours, theirs, rules):
        return Advice(f"{wrong}; {pair} needs {_listed(needed)}", True)
    if strange := _strange(left, right, rules):
        return Advice(
            f"{strange}; is it another model's? {pair} needs {_listed(needed)}, of the model that was run", True
        )
    if needed[0] - rules.given and left.refs and right.refs:
        return Advice(f"{pair} needs {_listed(needed)}; without it, tensors are paired by map and name only", False)
    return None


def _wrong(ours: DumpKind, theirs: DumpKind, rules: FusionRules) -> str:
    """Say which file cannot serve these kinds of dumps."""
    model, quant, close = (graph and graph.source for graph in (rules.model, rules.quant, rules.close))
    both_device = ours.family == theirs.family == "device"
    cases = (
        (close and not model, f"{close} cannot be used alone"),
        (close and quant, f"{close} and {quant} cannot be used together"),
        (close and theirs.family == "original", f"{close} is of no use here: the right side is not an Ascend dump"),
        (model and not close and both_device, f"{model} alone leads to an original model, and the right is not one"),
        (quant and ours.family == "device" and not model, f"{quant} alone does not describe an Ascend dump"),
        (quant and theirs.quantised, f"{quant} leads to a model before quantisation, and the right side is quantised"),
    )
    return next((sentence for applies, sentence in cases if applies), "")


def _strange(left: Dump, right: Dump, rules: FusionRules) -> str:
    """Say which file knows nothing of the names that it is to explain."""
    sides = [(rules.base, left, "left")]
    if rules.close is not None:
        sides.append((rules.close, right, "right"))
    for graph, dump, side in sides:
        if graph is None or not dump.refs:
            continue
        book = ports.offered("rule_files").NameBook(graph.names)
        if not any(book.candidates(ref.key.op) for ref in dump.refs):
            return f"{graph.source} knows no operator of the {side} side"
    if rules.model is not None and rules.quant is not None:
        known = set(rules.quant.names)
        if not any(known.intersection((operator.name, *operator.originals)) for operator in rules.model.operators):
            return f"{rules.quant.source} knows no operator that {rules.model.source} was made of"
    return ""


def _listed(needed: Sequence[frozenset[str]]) -> str:
    return ", or ".join(
        " and ".join(_FLAGS[name] for name in _FLAGS if name in files) or "no rule file" for files in needed
    )


# Reasons that an entry answers. With any other, the tensor is not to be compared, or an entry would not help.
_NO_NAMESAKE = ("no_operator_of_that_name", "scope_")


def next_entry(pairing: Pairing, left_dump: Dump, others: Iterable[Pair]) -> tuple[()] | tuple[str, str]:
    """Return the names of the next map entry: of the first pair that a way of pairing makes which was left out."""
    alone = (*pairing.unmatched_left, *pairing.unmatched_right)
    own = {(one.side, one.ref.key): one.ref for one in alone if one.why.code.startswith(_NO_NAMESAKE)}
    keys = ((("left", one.left.key), ("right", one.right.key)) for one in others)
    pair = next(((own[left], own[right]) for left, right in keys if left in own and right in own), None)
    if pair is None:
        return ()
    left, right = (
        f"{key.op.label}@{key.op.at.occurrence}:{key.io}:{key.slot}" if key.op.at.occurrence else key.address
        for key in (ref.key for ref in pair)
    )
    module = ports.load("pytest_msdump.core.matching.leaving:modules_of")("left", left_dump).in_entry(*pair)
    return (left, right) if module is None else (module, right.removesuffix(":output:0"))


def selected_nothing(chosen: Selection, pairing: Pairing, dumps: Iterable[Dump]) -> Iterator[str]:
    """Yield which globs matched no operator, where these alone left nothing to compare."""
    others = (chosen.deselect, chosen.iteration, chosen.rank, chosen.graph)
    if not chosen.select or any(others) or pairing.pairs or pairing.right_total or pairing.unmatched_left:
        return
    keys = {ref.key for dump in dumps for ref in dump.refs}
    known = {name for key in keys for name in (key.op.label, key.op.name, key.address)}
    for typed in chosen.select:
        if keys and not any(fnmatchcase(name, typed) for name in known):
            hint = nearest(typed, known)
            some = hint if hint.startswith("did") else f"there are {listed(sorted({key.op.label for key in keys}))}"
            yield say(Message("selected_nothing", {"glob": typed, "hint": some}))
