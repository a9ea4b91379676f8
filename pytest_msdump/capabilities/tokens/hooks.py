"""Sequences that two runs have in common, in other batches, chunks and paddings."""

NEEDS = ("shards",)

STAGES = {
    "runs": ("pytest_msdump.capabilities.tokens.tokens:with_tokens", "shards"),
    "reported": ("pytest_msdump.capabilities.tokens.entry:with_entry", "network"),
}

OPENERS = {"tokens": "pytest_msdump.capabilities.tokens.tokens:open_tokens"}
