"""Sequences that two runs have in common, in other batches, chunks and paddings."""

NEEDS = ("shards",)
AFTER = ("diagnosis",)

STAGES = {
    "runs": ("pytest_msdump.capabilities.tokens.tokens:with_tokens", "shards"),
    "explained": "pytest_msdump.capabilities.tokens.where:with_sequences",
    "reported": ("pytest_msdump.capabilities.tokens.entry:with_entry", "network"),
}

OPENERS = {"tokens": "pytest_msdump.capabilities.tokens.tokens:open_tokens"}

SENTENCES = "pytest_msdump.capabilities.tokens.text:SENTENCES"
