"""Tensors that the ranks of a run have shards of, and sequences that runs have in common."""

AFTER = ("statistics",)
STAGES = {
    "runs": [
        ("pytest_msdump.comparison.sharding:put_all_together", "shards", "ranks"),
        ("pytest_msdump.comparison.tokens:with_tokens", "shards"),
    ],
    "judged": ("pytest_msdump.comparison.sharding:with_copies_judged", "shards", "tokens"),
}

# Part of a tensor → what opens it. Of one that has both, tokens are taken of the whole.
OPENERS = {
    "tokens": "pytest_msdump.comparison.tokens:open_tokens",
    "shards": "pytest_msdump.comparison.sharding:open_shards",
}

# What the suite's tables [msdump.shards] and [[msdump.dims]] are read into.
OFFERS = {"shards": "pytest_msdump.model.shards", "strategy": "pytest_msdump.dumps.strategy"}
