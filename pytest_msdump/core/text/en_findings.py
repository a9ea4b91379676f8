"""What is found of a pair, in English; a part of `text.en`."""

from __future__ import annotations

from collections.abc import Mapping

FINDINGS: Mapping[str, str | tuple[str, str]] = {
    # -- a number and its limit
    "below_limit": "{metric} {value} is below {limit} ({rule}){detail}",
    "above_limit": "{metric} {value} is above {limit} ({rule}){detail}",
    "below_warning_level": "{metric} {value} is below warning level {limit} ({rule}){detail}",
    "above_warning_level": "{metric} {value} is above warning level {limit} ({rule}){detail}",
    "golden_above_limit": "{metric}: {detail}: ratio {value} > {limit} ({rule})",
    "golden_above_warning_level": "{metric}: {detail}: ratio {value} > warning level {limit} ({rule})",
    "detail_golden": "left against {golden:word} {left:number}, {other_run:word} against {golden:word} {other:number}",
    "golden_not_judged": "not judged by golden: a tensor was not saved, and not all runs have sketches; the profile's "
    "limits hold",
    "golden_of_other_shape": "{run:word} against {golden:word}: {why}",
    "golden_is_stale": "{run:word} is {factor:.3g} × as far from {golden:word} as profile default allows {dtype} "
    "({metric} {value:number}), more than 10 ×: {golden:word} or {run:word} is of another model, weights or inputs",
    "golden_is_elsewhere": "{golden:word} has NaN where {run:word} has none, or the other way round, or one is all 0: "
    "{golden:word} or {run:word} is of another model, weights or inputs",
    "detail_place": ", at {place:place}",
    "detail_slice": ", at slice {n}",
    "detail_interval": ": {low:number} to {high:number} by sketches",
    "detail_nonfinite": ": NaN left {nan_left}, right {nan_right}; Inf left {inf_left}, right {inf_right}; first at "
    "{place:place}",
    "detail_saturated": ": NaN, Inf or at its dtype's maximum on the left, where the right is finite and different; "
    "first at {place:place}",
    "detail_others": (
        ", of the {n} other element alone, beside those near {near:rough}",
        ", of the {n} other elements alone, beside those near {near:rough}",
    ),
    "metric_undefined_of_others": "{metric} of the other elements alone, beside those near {near:rough}, is undefined, "
    "because {why} ({rule})",
    "dominated": "dominated: {n} of {elements} elements near {near:rough}; each limit is held to the worse number, of "
    "all elements or of the others alone",
    "dominated_zeros": "dominated: {n} of {elements} elements near {near:rough}; the others are 0 on the right, and "
    "not judged apart",
    "outliers": (
        "{n} of {elements} elements, near {near:rough}, is far larger than all others; these are not judged apart",
        "{n} of {elements} elements, near {near:rough}, are far larger than all others; these are not judged apart",
    ),
    "statistics_dominated": "at least {share:percent} of the elements are near {near:rough}, and nothing judges the "
    "others, which are far smaller",
    "detail_tolerance": ": elements outside rtol {rtol:limit}, atol {atol:limit}",
    "leaves_out_zeros": (
        (
            "{metric} {value} leaves out {n} element where the right is 0 and the left is not, so its limit {limit} is "
            "not met ({rule})"
        ),
        (
            "{metric} {value} leaves out {n} elements where the right is 0 and the left is not, so its limit {limit} "
            "is not met ({rule})"
        ),
    ),
    "limit_skipped_near_zero": "{metric} does not apply to values that are all 0 or next to it; its limit is skipped "
    "({rule})",
    "limit_skipped_one_element": "{metric} does not apply to one-element tensors; its limit is skipped ({rule})",
    "limit_skipped": "{metric} does not apply, because {why}; its limit is skipped ({rule})",
    "metric_undefined": "{metric} is undefined, because {why} ({rule})",
    "drift_accepted_down_to": "{why}; accepted down to {limit:limit} by {rule}",
    "drift_accepted_up_to": "{why}; accepted up to {limit:limit} by {rule}",
    "drift_alone_down_to": "{metric} {value} is accepted down to {limit} by {rule}; it has no other limit",
    "drift_alone_up_to": "{metric} {value} is accepted up to {limit} by {rule}; it has no other limit",
    "drift_expired": 'known drift "{reason}" expired on {date}: the normal limits apply',
    # -- limits of a limits file
    "limit_derived": "{metric} limit {limit:limit} = {m:short} × {base:number}",
    "limits_derived": (
        "{what}, from {n} perturbed run{golden}, {multiplier}",
        "{what}, from {n} perturbed runs{golden}, {multiplier}",
    ),
    "and_golden": " and a golden run",
    "multiplier_assumed": "multiplier assumed",
    "multiplier_raised": (
        "multiplier assumed, and high enough for {n} control run",
        "multiplier assumed, and high enough for {n} control runs",
    ),
    "multiplier_earned": "false alarms ≤ {alpha:percent} of runs, from {n} control runs",
    "multiplier_tightened": "lowered to what a passing run measured",
    "limits_chaotic": "the profile judges this tensor, since rounding alone changes it by any amount ({file}: chaotic)",
    # -- what a person permits
    "permitted": "{by} lets it pass: {metric} {value:number}, where {rule} has {limit:limit}",
    "permitted_looser": "{by} lets it pass, {factor:.3g} × looser: {metric} {value:number}, where {rule} has "
    "{limit:limit}",
    "permitted_beyond": "{by} lets it pass: {metric} {value:number}, {factor:.3g} × the {limit:limit} of {rule}",
    "limits_too_loose": "the profile judges this tensor: the limit of {file} is {factor:.3g} × looser "
    "than profile default for {dtype}, more than 10 ×; --accept-looser (pytest: --msdump-accept-looser) lets it hold",
    "limits_of_other_tensor": "{file} has this name for a tensor of {elements:elements}, class {kind}; the right one "
    "has {n:elements}: the file is of another reference, or was edited; calibrate again",
    "limits_not_for_gradients": "the profile judges this gradient: no perturbed run shows what {dtype} does to "
    "gradients ({file})",
    "limits_not_scaled": "the profile judges this tensor, since {file} has no coarse run that shows what {dtype} does "
    "to it: record the reference perturbed by 2**-12 for msdump calibrate --coarse",
    # -- data types, NaN and Inf, what was not compared
    "dtypes_differ": "dtypes differ: left {left}, right {right}",
    "dtypes_must_be_equal": "dtypes differ: left {left}, right {right}, but must be equal ({rule})",
    "dtypes_judged_as_coarser": "dtypes differ: left {left}, right {right}; judged as {dtype}, the coarser side",
    "dtypes_differ_values_equal": "dtypes differ: left {left}, right {right}; all values are equal",
    "dtypes_and_values_differ": "dtypes differ: left {left}, right {right}; accepted only if all values are equal, "
    "and {n} are not",
    "complex_against_real": "dtypes differ: left {left}, right {right}; a real and a complex tensor are not compared; "
    "if it is intended, add {entry}",
    "nonfinite_forbidden": "NaN and Inf are forbidden ({rule}) but occur at {n} of {elements} positions: NaN matched "
    "{nan_both}, else left {nan_left}, right {nan_right}; Inf matched {inf_both}, else left {inf_left}, right "
    "{inf_right}; first at {place:place}",
    "device_overflow": "the device's own check found an overflow: {told}",
    "device_overflow_right": "the device's check of the right side: {told}",
    "uncompared_occurrences": "further occurrences of this tensor on the {side:word} side have no partner and were "
    "not compared: {n}{by}",
    "nothing_compared_empty": "nothing was compared: both sides are empty",
    "no_limit_applies": "the sides differ, but no limit applies to them; give one, e.g. max_absolute_error",
    "sampled": "sampled {n} of {elements} elements: the run saved no more",
    "sampled_of_unknown": "sampled {n} of an unknown number of elements: the run saved no more",
    "only_first_compared": "only the first {n} of {elements} elements were compared",
    "repeated_tensor": "the {side:word} side has this tensor {n} times, and this is occurrence {occurrence}",
    "written_input": "{type} overwrites its input {slot}, which the {side:word} run may have dumped only afterwards",
    # -- of the files
    "trailing_bytes": "the {side:word} file has {bytes} bytes more than its header describes; they were not compared",
    "coarser_values": "the {side:word} file is {dtype}, but all its values are {values}",
    "computed_in": "the {side:word} file is {dtype}, but was computed in {values}, as its manifest says",
    "judged_as_computed": "{why}; judged as {dtype}",
    "random_masks": "not comparable element by element, as masks are drawn at random: the shares set to zero agree "
    "({left:number} left, {right:number} right), and so do the {kept:elements} that both sides kept",
    "random_masks_differ": "masks are drawn at random, but the left set {left:number} of the elements to zero, the "
    "right {right:number}: another probability, or one side is not in training",
    "random_masks_swapped": "the left set {left:number} of the elements to zero, the right {right:number}: was "
    "MindSpore's keep probability given as p, or p as keep_prob?",
    "random_masks_kept_differ": "the shares that random masks set to zero agree ({left:number} left, {right:number} "
    "right), but the {kept:elements} that both sides kept do not: what goes in differs, or the factor 1 / (1 - p)",
    "zero_in_exact_arithmetic": "zero in exact arithmetic: it is the sum of {terms} gradients that cancel out, and "
    "both sides (norm {left:number} left, {right:number} right) are below {floor:number}, the rounding error in "
    "{dtype}",
    "other_formats_fit": "{why}; with {entry} in the suite file, and no other axis order, the shapes meet: is that so?",
    "not_as_in_graph": "{graph} says {said} for the {side:word} file, whose header, which was followed, says {held}",
    "shape_from_graph": "the {side:word} file has shape {stored:shape}; it was compared in {used:shape}, the shape in "
    "the graph of its run",
    "file_not_accepted": "{why}; not accepted ({rule})",
    "judged_by_hint": "{why}; judged as {dtype}, by {entry}",
    "hint_would_help": "{why}, but it was judged as {dtype}; if it was computed that way, add {entry} under "
    "[{section}]",
    # -- of shards
    "replica": (
        (
            "{n} copy on the {side:word} side should hold the same, but differs: {rank} from {first} by up to {value}, "
            "at {place:place}"
        ),
        (
            "{n} copies on the {side:word} side should hold the same, but differ: e.g. {rank} from {first} by up to "
            "{value}, at {place:place}"
        ),
    ),
    "incomplete": (
        "{n} of {shards} shards of the {side:word} side is missing: that of {at}; dump all ranks, or correct axes",
        (
            "{n} of {shards} shards of the {side:word} side are missing, e.g. that of {at}; dump all ranks, or correct "
            "axes"
        ),
    ),
    "ambiguous": "ambiguous: {why}",
    "ambiguous_axis": "dims '{dims}' does not say whether axis {axis} ({n} ranks) cuts the tensor or holds copies; "
    "add [{axis}] to a dimension, or {axis}:replicated behind #",
    "ambiguous_dims": "no [[msdump.dims]] matches it, so it may be cut along {axes}, or be the same on all ranks; add "
    "an entry",
    "ambiguous_placements": "its ranks say {placements:and}; add a [[msdump.dims]]",
    "ambiguous_files": "{files:and} hold the same shard; keep one",
    "ambiguous_stages": "ranks {stages:and} along {axis} each have a tensor of this name; add {axis}:replicated if "
    "they are copies, or renumber if names count from 0 on each",
    "shards_joined": (
        "{n} tensor put together from {shards} shards ({axes})",
        "{n} tensors put together from {shards} shards ({axes})",
    ),
    "ranks_absent": (
        "{n} of {ranks} ranks has no file: {at}; dump all ranks, or correct axes",
        "{n} of {ranks} ranks have no file, e.g. {at}; dump all ranks, or correct axes",
    ),
    "shards_axis_twice": "dims '{dims}' name axis {axis} twice; a tensor is cut once along each axis",
    "shards_do_not_fit": "shards of shapes {shape:shape} and {other:shape}, types {dtypes:and}, make no tensor by "
    "dims '{dims}'; correct dims, or dump again",
    "shards_not_added": "shards of {dtype} cannot be added; correct :partial in dims",
    "shards_not_saved": "{file} is a sample, or statistics only; shards and steps are put together from whole tensors",
    "shards_of_other_rank": "a shard of shape {shape:shape} has other dimensions than dims '{dims}'; correct dims",
    "shards_padded": "shards in {memory_format} cannot be joined without their original shape; convert them first",
    "steps_lacking": "it is in {n} of the {steps} steps that have ids, so steps cannot be joined; dump it in these, or "
    "leave it out of tokens.match",
    "steps_without_tokens": "its shape {shape:shape} does not begin with that of the ids, {ids:shape}, in each step "
    "and go on alike, so steps cannot be joined; leave it out of tokens.match",
    "tokens_in_common": "{n} of {tokens} tokens are those of a sequence that all sides have; the rest is not compared",
    "tokens_come_first": "tensors are compared token by token, so tokens stay their first axis; leave it out of match",
    "shards_uneven": "dimension {dim}: length {n} does not divide by {by}, so it is not of such a cut; correct dims "
    "or lengths",
    # -- from statistics
    "statistic_explains": "{why}: {statistic} is {left:number} left, {right:number} right",
    "slice_norms_explain": (
        "{why}, at least: the norm of slices {first} to {last} is {left:number} left, {right:number} right"
    ),
    "no_accuracy_limit_judged": "no limit on accuracy could be judged without the tensors: {listed}; give one that "
    "can, e.g. {metric}, or compare the tensors themselves",
    "no_common_statistic": "the sides have no finite statistic of their values in common: the left has {left}; the "
    "right has {right}",
    "statistic_changed_sign": "{statistic} changed its sign: {left:number} left, {right:number} right",
    "elements_changed_sign": "at least {n} of {elements} elements changed their sign, more than {share:g} of them",
    "zeros_differ": "zeros: {left} left, {right} right, of {elements} elements",
    "judged_by_statistics": "judged by statistics ({listed}): {unseen}; metrics only where these allow it",
    "judged_by_sketches": ("judged by sketches and statistics ({listed}): {unseen}; metrics only where these allow it"),
    "none_in_common": "none in common",
    "not_saved_left": "the left tensor was not saved",
    "not_saved_right": "the right tensor was not saved",
    "not_saved_both": "neither tensor was saved",
    "digests_differ": "digests differ: the tensors are not equal bit for bit",
    "digests_equal": "digests are equal, and so are all bits",
    "digests_prove_nothing": "{listed} is equal, which proves nothing: other values can have it, too",
    "digest_contradicted": "{digest} says that all bytes are equal, {listed:and} that they are not: one of the two is "
    "wrong; dump again",
    "places_not_saved": "both sides have NaN or Inf, at places that were not saved: nonfinite_mismatch is not judged "
    "({rule}); compare the tensors themselves",
    "too_close": "{metric} is at {low:g} to {high:g} of its limit {limit} by sketches ({rule}): compare the tensors "
    "themselves",
    "sketches_equal_digests_differ": "digests differ, and sketches see no difference; compare the tensors themselves",
    "sketches_of_two_sizes": "sketches of {left} and {right} buckets cannot be compared; record or sketch one side "
    "again",
    "sketches_of_two_orders": "sketches of tensors whose axes are in another order cannot be compared; keep the "
    "tensors of one side",
    "statistics_do_not_tell": "not judged, since statistics do not show it: {listed}",
    "shapes_not_compared": "the {sides:and} table has no shapes, so shapes were not compared",
    "zeros_added": "statistics of {memory_format} include its padding: {n} zeros were added to the other side's",
}
