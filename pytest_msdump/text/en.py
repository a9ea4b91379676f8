"""Every sentence for people in English: code → template; of two, the first is of exactly one `n`."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_msdump.text.en_causes import CAUSES
from pytest_msdump.text.en_findings import FINDINGS
from pytest_msdump.text.en_unmatched import EN_UNMATCHED
from pytest_msdump.text.replay import REPLAY_EN

EN: Mapping[str, str | tuple[str, str]] = {
    # -- what joins parts of a sentence
    "between_names": ", ",
    "between_parts": ", ",
    "between_numbers": ", ",
    "between_clauses": "; ",
    "after_label": "{label}: {text}",
    "in_brackets": "{text} ({aside})",
    "names_and_more": "{names} and {n} more",
    "same": "(same)",
    "left": "left",
    "right": "right",
    "golden": "golden",
    "third": "third",
    # -- verdicts: as the first word of a failure, and counted
    "PASS": "PASS",
    "WARN": "WARN",
    "FAIL": "DRIFT",
    "UNDEFINED": "UNDEFINED",
    "ERROR": "ERROR",
    "NOT_RUN": "NOT RUN",
    "count_pass": "{n} pass",
    "count_warn": "{n} warn",
    "count_fail": "{n} fail",
    "count_undefined": "{n} undefined",
    "count_error": "{n} error",
    "count_not_run": "{n} not run",
    # -- header
    "header_left": "msdump: left  = under test  {side}",
    "header_right": "        right = reference   {side}",
    "header_golden": "        golden = more exact {side}",
    "header_third": "        third = another run {side}",
    "header_pairs": ("{n} pair to compare, profile {profile}", "{n} pairs to compare, profile {profile}"),
    "header_kernel": "kernel: {kernel}",
    "side": "{directory}  ({about})",
    "reader": "reader {reader}",
    "given_different_inputs": (
        "the two runs had different inputs, so later results differ for that reason, too: {names}"
    ),
    "given_different_weights": (
        "the two runs had different weights, so later results differ for that reason, too: {names}"
    ),
    "batch_norm_folded": (
        "the {side:word} side has no {norms}, and the weights of the layers before differ: BatchNorm is probably "
        "folded into {names}"
    ),
    "perturbed_run": "this run's inputs and weights were perturbed, to find what rounding does: it is no reference",
    "sides_look_swapped": (
        "warning: the sides look swapped: the left is a folder of op.index.timestamp.npy files, the right a {reader} "
        "dump; left = run under test, right = reference"
    ),
    "dump_not_collected": "pytest collects nothing in {directory}, which is a dump; keep tests outside of dumps",
    "uncompared": (
        "{n} compared tensor has more occurrences, which were not compared: {k}",
        "{n} compared tensors have more occurrences, which were not compared: {k}",
    ),
    "partial_run": (
        "{side}: the directory holds a partial second run: {newer} of {n} tensor",
        "{side}: the directory holds a partial second run: {newer} of {n} tensors",
    ),
    "not_understood": (
        "{n} file is in no known format and was left out: {names}",
        "{n} files are in no known format and were left out: {names}",
    ),
    "by_statistics": (
        "{unseen} of {n} pair by saved statistics or sketches only, without values",
        "{unseen} of {n} pairs by saved statistics or sketches only, without values",
    ),
    "limits_between": "{file}: limits are {low:short} to {high:short} × what rounding does to a tensor",
    "limits_unchecked": "{file} is used without a check: nothing shows that it was made with this reference",
    "limits_lack": (
        "the profile judges {n} right tensor, which {file} does not have",
        "the profile judges {n} right tensors, which {file} does not have",
    ),
    # -- summary
    "calibrate_hint": "is it rounding? msdump calibrate measures the limits of this model",
    "limits_stale": (
        "{n} limit could be {times:short} times lower, as this run shows: --limits-update=tighten lowers it",
        "{n} limits could be {times:short} times lower, as this run shows: --limits-update=tighten lowers them",
    ),
    "limits_lowered": ("{file}: limits of {n} tensor lowered", "{file}: limits of {n} tensors lowered"),
    "matched": "matched {paired} of {total} right tensors ({share})",
    "without_partner": "{text}; without a partner: {sides}",
    "count_of_left": "{n} left",
    "count_of_right": "{n} right",
    "more_reasons": ("{tensors}: {n} more reason, see results.json", "{tensors}: {n} more reasons, see results.json"),
    "outcomes": ("{n} tensor: {counts}", "{n} tensors: {counts}"),
    "first_failing": "first failing: op {place} of {operators}, {line}",
    "more_warnings": "and {n} more warnings; results.json has them all",
    "sides_identical": "the two sides are identical, bit for bit; was a run compared with itself?",
    "pairs_equal": "every pair is equal, bit for bit",
    "coverage_is": "coverage: {problem}",
    "reports": "reports: {files}",
    "alarm": "ONLY {paired} OF {total} RIGHT TENSORS ({share}) WERE MATCHED, AND NO MIN_COVERAGE IS SET",
    "incomplete_left": "THE LEFT SIDE IS AN INCOMPLETE RECORDING: tensors missing from it were not compared",
    "incomplete_right": "THE RIGHT SIDE IS AN INCOMPLETE RECORDING: tensors missing from it were not compared",
    "not_complete": "some pairs were not run; a tensor that was not compared has not passed",
    "not_ended": "the run did not finish, so there is nothing to judge; run it again",
    "also_failing": "also failing (--msdump-show=all shows each in full):",
    "more_failing": (
        "and {n} more operator; --msdump-show=failing lists it",
        "and {n} more operators; --msdump-show=failing lists them",
    ),
    "more_short": ("and {n} more failed; -rf lists it", "and {n} more failed; -rf lists them"),
    "more_of_operator": ("{line} (and {n} more tensor)", "{line} (and {n} more tensors)"),
    "both_sides": "left {left}, right {right}",
    "foreign_results": (
        "ERROR: {n} results come from other dumps than this process sees: files changed during the run, or workers see "
        "other files"
    ),
    # -- coverage
    "nothing_compared": "nothing was compared: no left tensor has a partner on the right",
    "missing_mapped": ("{n} map entry found no pair", "{n} map entries found no pair"),
    "missing_fused": ("{n} mapped or fused pair is missing", "{n} mapped or fused pairs are missing"),
    "coverage_below": (
        "coverage is {share}, below the {wanted} asked for: {paired} of {total} right tensors have a partner"
    ),
    "coverage_fails": "COVERAGE: {problem}",
    "met": "met",
    "met_of": "{paired} of {total} right tensors in the selection ({share})",
    "holds_nothing": "{directory} (an empty folder)",
    "holds": "{directory} ({n} tensors; reader {reader})",
    "missing_title_mapped": "mapped, but not paired ({n}):",
    "missing_title_fused": "mapped or fused, but not paired ({n}):",
    "alone_left": "left tensors without a partner ({n}):",
    "alone_right": "right tensors without a partner ({n}):",
    "reason": "reason",
    "tensors": "tensors",
    "first_of_them": "the first of them:",
    "nearest": " (nearest: {names})",
    "do_check_dump": "what to do: check that the run wrote its dump there, and that the path is its root",
    "do_check_selection": (
        "what to do: the selection leaves out every tensor; check select, deselect, io, iteration, rank and graph"
    ),
    "do_map": "what to do: give both sides the same operator names, or name the pairs in msdump.toml:",
    "do_suggest": "msdump match --suggest finds partners by structure, names and values, and writes the entries",
    "partners": "partners: {how}",
    "next_entry": "the next entry to write:",
    "keep_scopes": "and in [msdump], since map entries turn off pairing by scope:",
    "the_left_operator": "the left operator",
    "the_right_operator": "the right operator",
    "more_tensors": "and {n} more tensors; results.json has them all",
    "rest_reasons": "and {n} more reasons; results.json has them all",
    # -- pairs that look wrong
    "suspicious": (
        "{n} suspicious pair: another tensor fits far better",
        "{n} suspicious pairs: another tensor fits far better",
    ),
    "better_right": (
        "{names} on the right fits far better ({why}): a wrong pair, or the left computes the wrong tensor here"
    ),
    "better_left": (
        "{names} on the left fits the right far better ({why}): a wrong pair, or the left computes this tensor "
        "elsewhere"
    ),
    "with_doubt": "{text}; ambiguous: {doubt}",
    "doubt_several": "several tensors have these values",
    "doubt_values": "too few different values to recognise a tensor",
    "doubt_names": "names or the fusion file pair these two, so the operator may just pass its input through",
    "more_suspicious": "and {n} more suspicious pairs; --msdump-show=all lists them",
    "do_map_instead": "if a pair is wrong, msdump.toml needs:",
    "in_place_of": "in place of {entry}",
    "fits": "values agree to {apart}, {shape}",
    "fits_equal": "values are equal, {shape}",
    "fits_by_name": "names agree, {shape}; values differ by {apart} of their norm",
    "fits_by_structure": "the same step of both runs, {shape}; values differ by {apart} of their norm",
    "decided_names": "other tensors have the same values: names decide",
    "decided_order": "other tensors have the same values: the execution order decides",
    "shape_same": "same shape",
    "shape_transposed": "axes of the right in another order",
    "shape_reshaped": "other shape",
    **CAUSES,
    # -- a failing tensor
    "and_more": "and {n} more",
    "equal": "equal",
    "differ": "differ",
    "every_limit_met": "every limit met",
    "statistics_only": "by statistics only",
    "sketches_only": "by sketches only",
    "largest_error": "max abs {value}",
    "at": "{text} at {place}",
    "slice": "slice {n}",
    "rerun": "re-run just this:",
    "accept": "to accept it: msdump accept {directory} GLOB --reason TEXT --until DATE",
    "place": "op {place} of {operators} in execution order",
    "place_by_name": "op {place} of {operators} in name order",
    "paired": "paired: {by}",
    "by_map": "a map entry",
    "by_rule_file": "the fusion file",
    "made_by": "made by",
    "right_made_by": "right made by",
    "right_is": "{value} (right {other})",
    "left_read_as": "left read as {memory_format}",
    "right_read_as": "right read as {memory_format}",
    "right_transposed": "right side transposed {axes}",
    "right_reshaped": "right side reshaped",
    "row_of_file": "{file}, line {row}",
    "dtype_unknown": "dtype unknown,",
    "shape_unknown": "shape unknown: not opened",
    # -- its table of limits
    "metric": "metric",
    "value": "value",
    "limit": "limit",
    "rule": "rule",
    "verdict": "verdict",
    "is_fail": "FAIL",
    "is_undefined": "undefined",
    "is_warn": "warn",
    "is_ok": "ok",
    "is_skipped": "skipped",
    # -- its other numbers
    "also": "also",
    "overflow": "overflow",
    "moments": "mean {mean} (right {right_mean}), deviation {deviation} (right {right_deviation})",
    "on_both": "{n} {title} the same on both sides",
    "on_left": "{n} {title} left only",
    "on_right": "{n} {title} right only",
    "first_differing": "first that differs at {place}",
    "first_at": "first at {place}",
    "number": "number",
    "overflowed": (
        "{n} left element is NaN, Inf or the largest {dtype}, where the right is finite and different",
        "{n} left elements are NaN, Inf or the largest {dtype}, where the right is finite and different",
    ),
    "allowed_is": "allowed is {allowed}",
    "exceed": "{n} exceed {allowed}",
    "worst_elements": "worst elements: {differing} of {elements} differ; {counted}",
    "index": "index",
    "err_allowed": "err / allowed",
    "statistic": "statistic",
    # -- its findings
    "finding_fail": "fail",
    "finding_undefined": "undefined",
    "finding_error": "error",
    "finding_warn": "warn",
    "finding_note": "note",
    "zeros_left_out": (
        "relative errors leave out {n} element where the right is 0 and the left is not",
        "relative errors leave out {n} elements where the right is 0 and the left is not",
    ),
    "near_zero": (
        "{n} element is 0 on one side and next to 0 on the other (at most 2 of the smallest steps): relative error 0",
        "{n} elements are 0 on one side and next to 0 on the other (at most 2 of the smallest steps): relative error 0",
    ),
    "would_pass": "would pass",
    "pass_with": "with {limits}",
    "not_by_limits": "not by limits alone ({names}); the others {text}",
    "the_rest": "the rest",
    "differs": "differs",
    "more_differ": "and {n} more; results.json has them all",
    "arguments": "arguments",
    "on_both_sides": "both sides",
    "none": "none",
    "has_none": "has none",
    # -- what a drift looks like
    "looks_like": "looks like",
    "confidence_high": "high",
    "confidence_medium": "medium",
    "looks_nonfinite": "NaN or Inf",
    "looks_constant": "constant",
    "looks_sign_flipped": "sign-flipped",
    "looks_scaled": "scaled",
    "looks_offset": "shifted by a constant",
    "looks_rounded": "rounded to a lower precision",
    "looks_clipped": "clipped",
    "looks_flushed_to_zero": "flushed to zero",
    "looks_one_slice": "one slice wrong",
    "looks_padding": "padding included",
    "looks_shifted_by_one": "shifted by one",
    "looks_transposed": "transposed",
    "looks_memory_format": "other memory format",
    "looks_permuted": "permuted",
    "looks_unrelated": "unrelated",
    # -- words within sentences
    "text": "{text}",
    "clauses": "{parts:clauses}",
    "at_place": "{why} (at {place})",
    "by_rule": " ({rule})",
    "elements": ("{n} element", "{n} elements"),
    "only_element": "its only element",
    "unknown_place": "an unknown place",
    "input": "input",
    "output": "output",
    "coordinate": "{name} {value}",
    **FINDINGS,
    # -- why a metric has no number
    "not_measured": "it was not measured",
    "golden_not_measured": "neither golden nor the third run has this tensor saved",
    "golden_nothing_finite": "no position is finite in a run and in golden",
    "golden_other_is_exact": "the other run is exactly golden, and nothing of it is rounded",
    "left_out_by": "it was left out by {rule}",
    "no_elements": "no elements",
    "nothing_finite": "no position where both sides are finite",
    "left_all_zero": "all elements of the left side are 0",
    "right_all_zero": "all elements of the right side are 0",
    "both_all_zero": "all elements of both sides are 0",
    "one_element": "cosine does not apply to a tensor of one element",
    "no_channels": "a tensor of fewer than two axes has no channels",
    "no_such_axis": "slices along axis {axis} need a tensor that has it; this one has {n}",
    "slices_too_small": "slices along axis {axis} have {n} elements each, fewer than {least}",
    "no_units": "{dtype} has no units of the last place",
    "no_noise": "nothing differs where both sides are finite",
    "right_zero_everywhere": "the right side is 0 and the left side is not, at every position where both are finite",
    "number_too_large": "the number is larger than float64 can hold",
    "difference_too_large": "the difference of two elements is larger than float64 can hold",
    "modulus_too_large": "the modulus of an element is larger than float64 can hold",
    "moduli_too_small": "the moduli of the right side are too small for float64 to hold exactly",
    "relative_error_too_large": "a relative error is larger than float64 can hold",
    "range_too_large": "the range of a side is larger than float64 can hold",
    "tensors_are_complex": "the tensors are complex",
    "right_zero_left_next_to_it": (
        "the right side is all 0, and the left differs from it by no more than {dtype} rounds"
    ),
    "bits_of_other_types": "dtypes differ: {left} and {right}",
    "bits_not_told": "the sides have no digest (md5, sha1) in common, and equal statistics do not prove equal bits",
    "one_side_nonfinite": "one side has {title}, and the statistics of the {side:word} do not count them",
    "counted_with_other_tolerance": (
        "it was counted with rtol {rtol:g} and atol {atol:g}; another tolerance needs the data: compare again"
    ),
    # -- shapes that do not meet
    "element_counts_differ": (
        "left {left:shape} has {n:elements}, right {right:shape} has {m:elements}: not the same tensor, or not the "
        "same input; name the intended pair in the map"
    ),
    "dimensions_reordered": (
        "left {left:shape} and right {right:shape} have the same dimensions in another order: {remedy}"
    ),
    "transpose_once": "`transpose = {axes:index}`",
    "transpose_instead": "`transpose = {axes:index}` instead of {applied:index}",
    "transpose_or_reshape": "{why}, or `reshape = true`: only axes of length 1 have moved",
    "other_orders_fit": "{why}; other orders fit too, since dimensions repeat: check the axes",
    "unit_axes_differ": "left {left:shape} and right {right:shape} differ in axes of length 1 only: `reshape = true`",
    "grouped_differently": (
        "left {left:shape} and right {right:shape} have {n:elements} each, grouped differently: `reshape = true` if "
        "the values come in the same order"
    ),
    # -- why a tensor has no partner
    **EN_UNMATCHED,
    # -- what speaks for a diagnosis
    "explains_share": "{why}; that explains {share:percent} of the squared difference",
    "left_is_minus_right": "left = -right",
    "left_is_scaled": "left = {factor:.6g} * right",
    "left_is_offset": "left = right {sign} {constant:.6g}",
    "left_stops_at_both_ends": "the left is the right, clipped to {low:short} below and {high:short} above{largest}",
    "left_stops_below": "the left is the right, clipped to {low:short} below",
    "left_stops_above": "the left is the right, clipped to {high:short} above{largest}",
    "largest_of_type": " (the largest {dtype})",
    "small_values_are_zero": "right values up to {bound:.6g} are 0 on the left, and no larger one is",
    "left_is_rounded": "the left is the right rounded to {grid}",
    "left_is_in_steps": "the left is the right rounded to steps of {step:.6g}, like a quantised tensor",
    "left_is_constant": "every left element is {value:short}; the right ranges from {low:.6g} to {high:.6g}",
    "same_values_elsewhere": "both sides have the same {n} values, in different places",
    "sorted_alike": (
        "sorted, the sides differ by {apart:.3g} on average; two samples of one distribution would differ by "
        "{chance:.3g}"
    ),
    "ranks_uncorrelated": "the rank correlation is {correlation:.3f}, and the values are distributed differently",
    "ranks_uncorrelated_alike": (
        "the rank correlation is {correlation:.3f}, but the values are distributed alike: the same tensor in another "
        "order, or a neighbour of the intended one"
    ),
    "flat_shift_before": "in flat order, each left element is the right element before it",
    "flat_shift_behind": "in flat order, each left element is the right element after it",
    "axis_shift_before": "along axis {axis}, each left element is the right element before it",
    "axis_shift_behind": "along axis {axis}, each left element is the right element after it",
    "border_of_zeros_first": (
        "the left begins with a border of zeros along axes {axes:index}, and the right follows, shifted"
    ),
    "border_of_zeros": "the left has a border of zeros along axes {axes:index}, and the right beside it, shifted",
    "axis_is_padded": "axis {axis} of the left is padded from {n} to {m}, and the padding was not removed",
    "zero_but_inside": "the left is 0 except at {parts}, where it equals the right: the rest looks like padding",
    "axes_in_other_order": "the {side:word} equals the {other:word} with its axes in the order {axes:index}{name}",
    "name_in_brackets": " ({name})",
    "still_in_memory_format": (
        "the {side:word} is still in {memory_format}, in blocks of {block}: converted back, it equals the other side"
    ),
    "only_slice_differs": (
        "{share:percent} of the squared difference is at {parts}, where {n} of {m} elements differ; none of the other "
        "{rest} differ"
    ),
    "slice_differs_most": (
        "{share:percent} of the squared difference is at {parts}, where {n} of {m} elements differ; of the other "
        "{rest}, {k} differ"
    ),
    "index_of_axis": "index {index} of axis {axis}",
    "range_of_axis": "{first} to {last} of axis {axis}",
    "nonfinite_on_one_side": (
        "{parts}, of {elements} elements, where the other side differs; the first at {place:place}"
    ),
    "count_on_side": "{n} {kind} on the {side:word}",
    # -- how two tensors were paired
    "same_name": "same name",
    "same_name_as": "same name as {name}",
    "same_scope": "same module {scope}",
    "same_graph": "same place in the graph",
    **REPLAY_EN,
}
