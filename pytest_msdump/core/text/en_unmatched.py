"""Why a tensor has no partner, in English: a part of the catalogue `text.en`."""

from __future__ import annotations

from collections.abc import Mapping

EN_UNMATCHED: Mapping[str, str | tuple[str, str]] = {
    # -- why a tensor has no partner: what a rule file says
    "inserted": "inserted by the compiler: no counterpart in the original model",
    "inner": "inner node of a many-to-many fusion",
    "fused": "fused into {op}: its own output no longer exists in the compiled model",
    "no_origin": "{rule} names no tensor of the original model for this output of {op}",
    "no_slot": "{rule} lists no {io:word} {slot} of {op}",
    "unconnected": "{rule} says that nothing feeds input {slot} of {op}",
    "unknown_producer": "{rule} has no operator {op}, which should feed this input",
    "circle": "{rule} has a loop of Cast and TransData operators at {op}",
    "strided_slice": "the compiler changed the graph around this strided slice: no counterpart in the original model",
    "l1_fusion": "L1 fusion group {group} works on slices of tensors: only its first and last operator are compared",
    "l2_fusion": "L2 fusion group {group} changed the structure of the graph: no counterpart in the original model",
    "aipp": "AIPP changes the input on the device, so {op} is not the input of the original model",
    "quant_output": "output of a quantisation: comparable only after dequantisation",
    "quantised": "between quantisation and dequantisation: comparable only after dequantisation",
    "quantised_input": "fed by a quantised output: comparable only after dequantisation",
    "dequant_input": "input of a dequantisation: its numbers are comparable only after they are dequantised",
    "data": "Data operators are not executed, so they are not dumped",
    "const": "constants are not executed, so they are not dumped",
    "no_result": "operators of this type write no result, so they are not dumped",
    "not_executed": "operators of this type are not executed on AI Core or AI CPU, so they are not dumped",
    "right_input": "with a rule file, inputs of the left side pair with the outputs that feed them",
    "fed_by": "fed by {op}: {why}",
    "of_left": "{name} on the left side: {why}",
    "not_dumped_operator": "the left side did not dump {op}",
    "unknown_output": "{rule} does not know output {slot} of {name}",
    "names_written_alike": "ambiguous: {names} of {rule} have the same file name {name}; use a map entry",
    "rule_ambiguous": "ambiguous: {rule} pairs it with {name}, which may be {names} on the right side",
    # -- why a tensor has no partner: names and places
    "no_operator_of_that_name": "no operator of that name on the {side:word} side",
    "no_operator_named": "no operator {name} on the {side:word} side",
    "no_operator_named_at": "no operator {name} on the {side:word} side at ({place})",
    "operator_left_out_by_entry": "{name} on the {side:word} side is only at {places}, which {rule} leaves out",
    "side_is_empty": "the {side:word} side is empty",
    "older_run": "older run",
    "same_address": "another tensor of this side has the same address at the same place",
    "aligned_with": "{value} (aligned with {other})",
    "elsewhere": "the {side:word} side has it in {theirs:and} only, not in {ours:and}; use align to pair them",
    "other_occurrence": "the {side:word} side has it in {theirs:and} only, not in {ours:and}",
    "only_at": "the {side:word} side has it only at {places}, not at ({place}); use align to pair them",
    "only_at_unselected": "the {side:word} side has it only at {places}, which the selection leaves out",
    "no_such_slot": "{name} on the {side:word} side has no {slot}; it has {slots}",
    "no_tensors": "no tensors",
    "left_out_by_selection": "the selection leaves out {name} on the {side:word} side",
    "paired_with_other": "{name} on the {side:word} side is paired with {partner} ({how})",
    "paired_by_entry": "{name} on the {side:word} side is paired by a map entry",
    "paired_otherwise": "{name} on the {side:word} side is already paired",
    "already_paired": "{name} on the {side:word} side is already paired with {partner} by {rule}",
    "not_selected": "{name} on the {side:word} side is not selected",
    "kept_for_entry": "{name} on the {side:word} side is kept for a map entry: {why}",
    "name_is_ambiguous": "{name} on the {side:word} side is left alone, since its name is ambiguous",
    "returns_inner": "it returns the output of a module inside it, which counts in its place",
    "passed_on": "{type} passes its input through, so it does not count in coverage",
    "inside_scope": "it is inside of a module whose output is compared",
    "norm_folded": "the {side:word} side has no such tensor: the normalisation after it is folded in, and its output "
    "is compared",
    "weight_folded": "the {side:word} side has the next normalisation folded into this weight; the output of that is "
    "compared",
    "scope_called": "{scope} is called {n} times on the {side:word} side; name one call, the first as {scope}@0",
    "scope_calls_unknown": "{scope} is called several times, and it is unknown to which call each operator of the "
    "{side:word} side belongs",
    "scope_calls_mixed": "other operators run between those of {scope} on the {side:word} side, and no graph shows "
    "its output",
    "scope_calls_differ": "{scope} is called {ours} times on the left and {theirs} times on the right",
    "scope_kinds_differ": "{scope} is a different kind of module on each side: {ours} on the left, {theirs} on the "
    "right",
    "scope_slots_differ": "{scope} has a different number of outputs on each side",
    "root_several_leave": "several operators of the {side:word} side make outputs of the model",
    "own_outputs": "the model's own outputs",
    "outputs_of_other_number": "the model's own outputs: the left has {ours}, the right {theirs}",
    "outputs_of_other_shapes": "the model's own outputs: at one place the left has shape {left}, the right {right}",
    "outputs_of_other_names": "the model's own outputs have other names: {ours} is where {theirs} is on the right",
    "outputs_without_order": "the order of the model's own outputs is unknown on one side, and several have one shape",
    "scope_several_leave": "several operators of {scope} on the {side:word} side make outputs of the module",
    "scope_end_unknown": "the output of {scope} on the {side:word} side is unknown: an operator that may belong to it "
    "has no scope",
    "scope_shapes_differ": "{scope} has different shapes: {left:shape} on the left, {right:shape} on the right",
    "scope_layout_unknown": "more than one order of axes fits {scope}: {left:shape} on the left, {right:shape} on the "
    "right",
    "numbers_differ": "{n} numbers in {scope} stand for different kinds of operators on the two sides, so such names "
    "pair nothing",
    "share_a_name": "ambiguous: {ours} on the left and {theirs} on the right share a name; use a map entry",
    "entry_ambiguous": "ambiguous: the entry names {ours} on the left and {theirs} on the right; write TYPE.OP to "
    "pick one",
    "entry_without_slots": "no slots to pair at ({place}): {parts:clauses}",
    "has_slots": "{name} on the {side:word} side has {slots}",
    "has_slots_asked": "{name} on the {side:word} side has {slots} (asked for: {slot})",
    "entry_names_nothing": "neither side has a tensor that {rule} names",
    "of_operator": "{name}: {why}",
    "rule_pairs_unselected": "{rule} pairs it with {name}, which the selection leaves out",
    "rule_pairs_undumped": "{rule} pairs it with {name}, which the {side:word} side did not dump",
    "rule_pairs_taken": "{rule} pairs it with {name}, which has no tensor left for this slot",
    "rule_pairs_other_slots": "{rule} pairs it with {name}, but the {side:word} side has only {slots}",
    "rule_pairs_no_output": "{rule} pairs it with {name}, but the {side:word} side has no such output of it",
    "rule_pairs_but": "{rule} pairs it with {name}: {why}",
    # -- why a tensor has no partner: what the other run was set to dump
    "not_dumped_by_script": "not dumped: the {side:word} run dumped only what its script names with set_dump",
    "not_dumped_no_overflow": "not dumped: the {side:word} run dumped only operators that overflowed (op_debug_mode 3 "
    "in {source})",
    "not_dumped_no_exception": "not dumped: the {side:word} run dumped only inputs of an operator with an exception "
    "(op_debug_mode 4 in {source})",
    "not_dumped_iteration": (
        'not dumped: iteration {iteration} is not selected on the {side:word} side (iteration "{iterations}" in '
        "{source})"
    ),
    "not_dumped_io": "not dumped: {io:word}s only on the {side:word} side (input_output in {source})",
    "not_dumped_kernels": "not dumped: the kernels list of the {side:word} side does not name it ({kernels} in "
    "{source})",
    "some_kernels_dumped": "no operator of that name on the {side:word} side, which dumped only what its kernels list "
    "names ({kernels} in {source})",
    "not_dumped_text": "not dumped: {type} takes a string, which MindSpore cannot dump",
    "not_dumped_empty": "not dumped: it is empty, {shape:shape} in the graph, and MindSpore writes no empty tensors",
    "not_dumped_dtype": "not dumped: {dtype}, which MindSpore could not dump on the {side:word} side",
    "not_dumped_ended": "not dumped: it is in a graph of the {side:word} run, and no setting leaves it out: the run "
    "ended early, or the file was deleted",
}
