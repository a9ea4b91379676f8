"""What is said of failures together: which operator started it, pairs that look wrong, steps counted differently."""

STAGES = {
    "reported": ("pytest_msdump.causes.localise:with_causes", "network"),
    "next_entry": "pytest_msdump.causes.steps:entry_by_structure",
    "summarised": ("pytest_msdump.causes.summarised:SummarisedCauses", "notable"),
}

OFFERS = {"bundle": "pytest_msdump.causes.bundling"}
