"""``msdump check results.json``: judge saved numbers again, with other limits, without the data."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.cli.gate import print_saved
from pytest_msdump.cli.output import Outcome, phrases
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.facts.profiles import PROFILES
from pytest_msdump.core.limits.judge import judge
from pytest_msdump.core.limits.resolve import GOLDEN_RULE_METRIC, computed_dtype, hinted_dtypes, resolve, settled
from pytest_msdump.core.model.comparison import Comparison, Finding, Limits, Measurement, Verdict
from pytest_msdump.core.model.spellings import KnownNames
from pytest_msdump.core.ports import offered
from pytest_msdump.core.report.files import policy_entry
from pytest_msdump.core.report.json_report import read_json, report_from
from pytest_msdump.core.settings.options import COMMAND_FLAGS, OPTIONS, argparse_kwargs, option_values
from pytest_msdump.core.suite import load_suite
from pytest_msdump.core.text import Message

if TYPE_CHECKING:
    from pytest_msdump.core.limits.policy import Policy
    from pytest_msdump.core.model.record import Record
    from pytest_msdump.core.model.report import Report

DESCRIPTION = (
    "Judge the numbers of a results.json again. Without options the saved verdicts stand; with --profile, --threshold "
    "or --config every pair is judged anew by these alone. Exit codes are those of compare."
)
EXAMPLES = ("msdump check msdump-report/results.json --profile strict",)

# The options that judge anew; unlike those of a comparison they have no defaults.
_OPTIONS = {
    "config": "suite file with the rules to judge by",
    "profile": f"named limits: {', '.join(PROFILES)} (default: those of the run, when another option is given)",
    "threshold": "limit of one metric for every tensor, e.g. cosine=0.999; repeatable",
    "min_coverage": "fail if less of the right side is compared, 0 to 100 per cent",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the files and the options that concern limits."""
    parser.add_argument("files", nargs="+", metavar="RESULTS.json", help="results.json of a run")
    for option in OPTIONS:
        if option.name in _OPTIONS:
            parser.add_argument(*option.cli_flags, **argparse_kwargs(option) | {"help": _OPTIONS[option.name]})


def run(parsed: argparse.Namespace) -> int:
    """Judge each file; return the worst exit code."""
    options = {name: value for name, value in option_values(parsed).items() if name in _OPTIONS}
    codes, say = [], phrases(parsed)
    for name in parsed.files:
        report = report_from(read_json(Path(name)), place=name)
        if any(value is not None for value in options.values()):
            report = _judged_again(report, options)
        codes.append(print_saved(name, report, say))
    if len(codes) == 1:
        return codes[0]
    return Outcome(
        max(codes),
        "verdicts",
        lambda: {
            "results": [
                {"file": name, "exit_code": int(code), **code.document()}
                for name, code in zip(parsed.files, codes, strict=True)
            ]
        },
    )


def _judged_again(report: Report, options: Mapping[str, Any]) -> Report:
    """Return the report with the same numbers under another policy."""
    file = Path(options["config"]) if options["config"] is not None else None
    if file is not None and not file.exists():
        raise ConfigError(f"--config: there is no file {file}; give a suite file")
    suite = load_suite(
        file=file,
        options={
            # A suite has two sides. They are not read here; those of the run may be on another machine.
            "left": ".",
            "right": ".",
            **dict.fromkeys(report.further, "."),
            "profile": options["profile"] or (None if file else report.profile),
            "threshold": options["threshold"],
            "min_coverage": options["min_coverage"],
        },
        directory=Path.cwd(),
        spelled=COMMAND_FLAGS,
    )
    coverage = report.coverage
    # What was asked of the run stays, where nothing is asked anew.
    if suite.options["min_coverage"] is not None:
        coverage = replace(coverage, min_coverage=suite.options["min_coverage"])
    policy = settled(suite.policy, names_of(report))
    records = [judged_by(policy, record) for record in report.records]
    return replace(
        report,
        profile=suite.policy.profile,
        limits=policy_entry(suite.policy),
        coverage=coverage,
        records=tuple(_without_stale_roles(report.records, records)),
    )


def names_of(report: Report) -> KnownNames:
    """Return the names of the tensors that a run compared."""
    return KnownNames(lambda: (side.key for record in report.records for side in (record.left, record.right)))


def _without_stale_roles(before: Sequence[Record], after: Sequence[Record]) -> Sequence[Record]:
    """Keep the roles as long as the same tensors fail, at one share of their limits: only a comparison knows more."""
    drift_of = offered("roles").drift_of
    found = [[(record.fails, drift_of(record)) for record in records] for records in (before, after)]
    return after if found[0] == found[1] else [record.without_role() for record in after]


def judged_by(policy: Policy, record: Record) -> Record:
    """Judge one saved pair under another policy. A pair that was never measured keeps its verdict."""
    left, right = record.left, record.right
    saved = record.statistics
    if left.dtype is None or right.dtype is None or not (record.comparison or saved):
        return record
    if record.comparison and any(one.message.code == "digest_contradicted" for one in record.verdict.findings):
        # Digests are not in the numbers of tensors.
        return record
    dtypes = hinted_dtypes(policy, left.dtype, right.dtype, record.remarks)
    limits = resolve(
        policy,
        left=left.key,
        right=right.key,
        left_dtype=dtypes[0],
        right_dtype=dtypes[1],
        notes=(record.pair_note, saved.note if saved else None),
        uncompared=record.uncompared,
        golden=_golden_shape(record),
        computed=computed_dtype(left.dtype, right.dtype, record.remarks),
    )
    sizes = record.comparison or saved
    elements = getattr(sizes, "total_elements", None) or sizes.elements if sizes else None
    other = policy.limits.other_tensor(right.key, elements) if policy.limits and elements is not None else None
    if other is not None:
        return record.judged(Verdict("error", (Finding("error", other),)), limits, ())
    if record.comparison is not None:
        comparison = _as_measured(record.comparison, limits)
        verdict, checks = judge(
            comparison,
            limits,
            left_dtype=left.dtype,
            right_dtype=right.dtype,
            overflows=left.overflows,
            right_overflows=right.overflows,
            remarks=record.remarks,
        )
        return record.judged(verdict, limits, checks)
    if saved is None:
        return record
    verdict, checks, _ = offered("statistics").judge_statistics(
        saved.left,
        saved.right,
        limits,
        left_dtype=left.dtype,
        right_dtype=right.dtype,
        elements=saved.elements,
        unseen=saved.unseen,
        intervals=saved.intervals,
        overflows=left.overflows,
        right_overflows=right.overflows,
    )
    return record.judged(verdict, limits, checks)


def _golden_shape(record: Record) -> tuple[int, ...] | None:
    """Return the shape of a tensor that was measured against golden, of which sketches count as well."""
    found = record.comparison and record.comparison.three_way
    is_measured = found.golden == "golden" if found else GOLDEN_RULE_METRIC in record.estimates
    shape = record.right.logical_shape or record.right.shape
    return shape if record.golden is not None and is_measured else None


def _as_measured(comparison: Comparison, limits: Limits) -> Comparison:
    """Drop the count of elements outside rtol/atol when it was counted with another tolerance."""
    if (limits.rtol, limits.atol) == (comparison.rtol, comparison.atol):
        return comparison
    reason = Message("counted_with_other_tolerance", {"rtol": comparison.rtol, "atol": comparison.atol})
    measurements = {**comparison.measurements, "allclose": Measurement("allclose", undefined=reason)}
    return replace(comparison, measurements=measurements)
