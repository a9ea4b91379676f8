"""What this capability adds."""

# What started the failures comes first.
AFTER = ("causes", "quantised")

COMMANDS = {
    "diff": (
        "pytest_msdump.capabilities.diff.command",
        "say what became better and worse between two saved results of one suite",
        "check",
    ),
}

OPTIONS = {
    "compare_to": {
        "group": "output",
        "kind": "path",
        "metavar": "FILE",
        "help": "results.json of an earlier run: say what became better and worse since; the exit code stays as it is",
        "default": "none",
        "read": "pytest_msdump.capabilities.diff.since:earlier",
        "after": "report",
    },
}

STAGES = {
    "reported": ("pytest_msdump.capabilities.diff.since:with_difference", "compare_to"),
    "summarised": ("pytest_msdump.capabilities.diff.since:SummarisedDifference", "notable"),
}

REPORT_PART = "pytest_msdump.capabilities.diff.difference:Difference"

SECTION = "pytest_msdump.capabilities.diff.since:section"

SENTENCES = "pytest_msdump.capabilities.diff.text:SENTENCES"
