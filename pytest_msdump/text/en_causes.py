"""English sentences on causes: roles, why an operator has its role, how errors grow."""

from __future__ import annotations

from collections.abc import Mapping

# As in `text.en`: where the number `n` decides, the singular stands first.
CAUSES: Mapping[str, str | tuple[str, str]] = {
    # -- roles
    "count_cause": ("{n} cause", "{n} causes"),
    "count_accumulated": "{n} accumulated",
    "count_inherited": "{n} inherited",
    "count_unknown": "{n} unknown",
    "found_by": "{text}; found by {source}",
    "between_sources": " and ",
    "by_graph": "the run's own graph",
    "by_right_graph": "the right side's graph",
    "by_fusion": "the fusion JSON",
    "by_order": "execution order (no graph connects the operators)",
    "cause_line": "cause  {operator} (op {place} of {operators}): {reason}",
    "more_causes": "and {n} more causes; --msdump-show=all lists them",
    "inherited_line": "{n} inherited: {names}",
    "accumulated_line": "accumulated  {operator} (op {place} of {operators}): {reason}",
    "accumulated_after": "{n} accumulated after it: {names}",
    "more_accumulated": "and {n} more accumulated; --msdump-show=all lists them",
    "unknown_line": "unknown  {names}: {reason}",
    "more_unknown": "and {n} more reasons; --msdump-show=all lists them",
    "without_cause": "inherited  {names}: their inputs fail, and the source of these inputs was not compared",
    "amplifying": "error amplification (output error / input error): {names}",
    "grew_within": "grew × {step} at {operator}, still within its limit",
    "loose_limits": "these limits are loose: the mistake may be far ahead of the first operator that fails",
    "largest_growth": "the largest growth is × {step} at {operator}",
    "short_cause": "cause: {names}",
    "role_cause": "role cause",
    "role_accumulated": "role accumulated",
    "role_inherited": "role inherited",
    "role_unknown": "role unknown",
    # -- why it has its role: the English stands in results.json
    "why_unseen": "not all of its inputs were compared: {suspects}",
    "why_shared": "other failing operators share an input that was not compared: {suspects}",
    "why_circle": "it is in a loop of operators that all fail: {suspects}",
    "why_order": "no graph connects the operators: it runs after a failing one, but may be wrong by itself",
    "why_order_jump": (
        "no graph connects the operators; the largest jump before it in execution order is × {step} at {at}, still "
        "within its limit"
    ),
    "why_feeds": "no graph shows its inputs",
    "why_earlier": "its input may come from an earlier part of the run, which fails, too",
    "why_ranks": "its input comes from other ranks, and some of those fail",
    "why_input": "its input fails, and the operator that made it was not judged: {suspects}",
    "why_step": "through parameters that the iteration before updated: {suspects}",
    "why_before": "its input fails; before that: {suspects}",
    "why_first": "the first to fail",
    "why_passing": "all of its inputs that were compared pass",
    "why_grew": "an input of it, or an operator before it, fails, too",
    "why_jump": "it is still within its limit, but operators that take its output fail",
    "why_within": "the error grew × {step} here, still within its limit, and in small steps afterwards",
    "why_accumulated": (
        "error grew from {start} to {end} of the limit over {n} operator; the largest step is × {step} at {at}",
        "error grew from {start} to {end} of the limit over {n} operators; the largest step is × {step} at {at}",
    ),
    "grown": "its error grew × {step}, from {start} to {end} of its limit",
    "grown_from_equal": "its error is {end} of its limit, and its inputs are equal",
    "left_out": "its input on the right has no partner: {names}",
    "or_before": "it, or an operator before it that was not compared: {suspects}",
    "given_unseen": "not compared: {names}",
    "given_before": "not compared with their values before the step: {names}",
    "operators_before": ("{n} operator before {operator}", "{n} operators before {operator}"),
    "operations_before": "operations before {operator}",
    "state_not_dumped": "not dumped",
    "state_not_run": "not run",
    "state_no_partner": "no partner",
    "state_compared_in_part": "compared in part",
    "state_not_selected": "not selected",
    "state_fails": "fails",
    "state_passes": "passes",
    "role_because": "{role}: {reason}",
    "role_from": "{role} from {names}",
}
