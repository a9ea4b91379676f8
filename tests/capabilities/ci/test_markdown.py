"""summary.md: half a page, in which no name is markup."""

from __future__ import annotations

import pytest
from report import samples

from pytest_msdump.capabilities.ci.markdown import markdown_text
from pytest_msdump.core.compare.assemble import assemble
from pytest_msdump.core.report.files import write_report


def a_report(records):
    left, right = samples.dumps()
    pairing = samples.pairing([samples.pair()] * len(records), paired=2, total=2)
    return assemble(left, right, pairing, records, profile="default")


def drifted(**changes):
    return samples.edited(samples.drifted(), **changes)


def test_a_failure_is_told_with_its_place_and_line():
    source = {"file": "net.py", "line": 12, "text": "x = self.conv2(x)"}
    text = markdown_text(a_report([drifted(source=source), samples.passed()]))
    assert text.startswith(
        "## msdump: FAIL\n\n2 tensors: 1 pass, 1 fail, 100 % of the reference compared.\n\n### What fails first\n"
    )
    row = next(line for line in text.splitlines() if line.startswith("| 5 "))
    assert row.startswith(
        "| 5 | `Default/conv2-Conv2d/BiasAdd-op0` | `net.py:12` |  | "
        "`DRIFT Default/conv2-Conv2d/BiasAdd-op0:output:0 [net.py:12]: cosine_similarity 0.390511"
    )
    assert "| left, under test | `target_bad` `ms_version 2.10.0, device_target CPU` |" in text
    assert "| matched | 2 of 2 right tensors |" in text


def test_five_causes_are_listed_with_their_region_and_the_others_are_a_number():
    causes = [drifted(role="cause", order=number, role_reason=f"bounded: in block{number}") for number in range(7)]
    text = markdown_text(a_report(causes))
    assert [f"in block{number}`" in text for number in range(7)] == [True] * 5 + [False] * 2
    assert "\nand 2 more\n" in text


def test_causes_are_listed_and_those_that_inherit_are_counted():
    text = markdown_text(
        a_report([drifted(role="inherited"), drifted(role="cause", order=8), drifted(role="inherited")])
    )
    assert "### What started it" in text
    assert [line.split(" ")[1] for line in text.splitlines() if line.startswith("| ") and "DRIFT" in line] == ["9"]
    assert "2 inherited the error." in text


def test_nothing_compared_has_not_passed():
    text = markdown_text(a_report([]))
    assert text.startswith("## msdump: FAIL")
    assert "**Coverage:** `nothing was compared" in text


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a|b", "`a\\|b`"), ("a`b", "``a`b``"), ("`", "`` ` ``"), ("<img src=x>", "`<img src=x>`"), ("a\nb", None)],
)
def test_names_stand_in_code_spans(name, shown):
    report = a_report([samples.passed()])
    text = markdown_text(assemble(*samples.dumps(), samples.pairing(), report.records, profile=name))
    row = next(line for line in text.splitlines() if line.startswith("| profile"))
    if shown:
        assert row == f"| profile | {shown} |"
    assert len([line for line in text.splitlines() if line.startswith("|")]) == 6


def test_it_is_appended_to_the_summary_of_a_job(tmp_path, monkeypatch):
    summary = tmp_path / "job.md"
    summary.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    report = a_report([drifted()])
    assert [file.name for file in write_report(report, ("json",), tmp_path / "one")] == ["results.json"]
    assert summary.read_text(encoding="utf-8") == "before\n"
    (file,) = write_report(report, ("md",), tmp_path / "two")
    assert file.read_text(encoding="utf-8") == markdown_text(report)
    assert summary.read_text(encoding="utf-8") == f"before\n{markdown_text(report)}\n"
