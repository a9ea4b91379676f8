"""English sentences on causes: roles, why an operator has its role, how errors grow."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CAUSES"]

# As in `text.en`: where the number `n` decides, the singular stands first.
CAUSES: Mapping[str, str | tuple[str, str]] = {
    # -- roles
    "count_cause": ("{n} cause", "{n} causes"),
    "count_accumulated": "{n} accumulated",
    "count_inherited": "{n} inherited",
    "count_unknown": "{n} unknown",
    "told_by": "{text}; told by {source}",
    "between_sources": " and ",
    "by_graph": "the run's own graph",
    "by_right_graph": "the right side's graph",
    "by_fusion": "the fusion JSON",
    "by_order": "execution order, since no graph tells who feeds whom",
    "cause_line": "cause  {operator} (op {place} of {operators}): {reason}",
    "more_causes": "and {n} more causes; --msdump-all shows them",
    "inherited_line": "{n} inherited: {names}",
    "accumulated_line": "accumulated  {operator} (op {place} of {operators}): {reason}",
    "accumulated_after": "{n} accumulated behind it: {names}",
    "more_accumulated": "and {n} more accumulated; --msdump-all shows them",
    "unknown_line": "unknown  {names}: {reason}",
    "more_unknown": "and {n} more reasons; --msdump-all shows them",
    "without_cause": "inherited  {names}: their inputs fail, and what these come from was not compared",
    "amplifying": "error out over error in: {names}",
    "grew_within": "grew × {step} at {operator}, still within its limit",
    "loose_limits": "with these limits the first operators to fail may be far behind the mistake",
    "largest_growth": "the largest growth is × {step} at {operator}",
    "inherited_from": "inherited from {names}",
    "accumulated_from": "accumulated, as {names} did",
    "shown_whole": "{text}; --msdump-all shows it whole",
    "role_cause": "role cause",
    "role_accumulated": "role accumulated",
    "role_inherited": "role inherited",
    "role_unknown": "role unknown",
    # -- why it has its role: the English stands in results.json
    "why_unseen": "what feeds it was not all compared: {suspects}",
    "why_shared": "others that fail are fed by the same, which was not compared: {suspects}",
    "why_circle": "operators feed one another and all fail: {suspects}",
    "why_order": "no graph tells who feeds whom; it follows a failure, and may be of its own",
    "why_order_jump": (
        "no graph tells who feeds whom; the largest jump along execution order before it is × {step} at {at}, "
        "still within its limit"
    ),
    "why_feeds": "nothing tells where its error comes from: what feeds it is not known, or was not compared",
    "why_earlier": "what it was given may come from an earlier part of the run, which fails, too",
    "why_ranks": "it takes values from other ranks, and some of those fail",
    "why_input": "its input fails, and what feeds it has no verdict of its own: {suspects}",
    "why_step": "through parameters as the iteration before left them: {suspects}",
    "why_before": "its input fails; before that: {suspects}",
    "why_first": "the first to fail in execution order",
    "why_passing": "all that feeds it and was compared passes",
    "why_grew": "what feeds it, or ran before it, fails, too",
    "why_jump": "it is still within its limit, but what it feeds fails",
    "why_within": "the error grew × {step} there, still within its limit, and by small steps since",
    "why_accumulated": (
        "error grew from {start} to {end} of the limit over {n} operator; the largest step is × {step} at {at}",
        "error grew from {start} to {end} of the limit over {n} operators; the largest step is × {step} at {at}",
    ),
    "grown": "its error grew × {step}, from {start} to {end} of its limit",
    "grown_from_equal": "its error is {end} of its limit, and what feeds it is equal",
    "left_out": "what feeds it on the right has no partner: {names}",
    "or_before": "it, or one before it that was not compared: {suspects}",
    "given_unseen": "not compared: {names}",
    "given_before": "not compared as they were before the step: {names}",
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
