"""What is said of failures together: which operator started it, pairs that look wrong, steps counted differently."""

STAGES = {
    "reported": ("pytest_msdump.causes.localise:with_causes", "network"),
    "next_entry": "pytest_msdump.causes.steps:entry_by_structure",
    "told": ("pytest_msdump.causes.told:CausesTold", "notable"),
}

OFFERS = {"bundle": "pytest_msdump.causes.bundling"}
