"""What is said of failures together: which operator started it, and pairs that look wrong."""

NEEDS = ("arrays", "suggest")

STAGES = {
    "reported": ("pytest_msdump.capabilities.causes.localise:with_causes", "network"),
    "summarised": ("pytest_msdump.capabilities.causes.summarised:SummarisedCauses", "notable"),
}

SENTENCES = "pytest_msdump.capabilities.causes.text:SENTENCES"

OFFERS = {
    "bundle": "pytest_msdump.capabilities.causes.bundling",
    "roles": "pytest_msdump.capabilities.causes.growth",
}
