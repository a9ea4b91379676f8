"""Tensors that the ranks of a run have shards of."""

NEEDS = ("protobuf",)

AFTER = ("statistics",)

STAGES = {
    "runs": ("pytest_msdump.capabilities.shards.sharding:put_all_together", "shards", "ranks"),
    "paired": ("pytest_msdump.capabilities.shards.one_sided:with_cuts_known", "shards", "ranks"),
    "judged": ("pytest_msdump.capabilities.shards.sharding:with_copies_judged", "shards", "tokens"),
}

OPENERS = {"shards": "pytest_msdump.capabilities.shards.sharding:open_shards"}

# What the suite's tables [msdump.shards] and [[msdump.dims]] are read into.
OFFERS = {
    "shards": "pytest_msdump.capabilities.shards.model",
    "strategy": "pytest_msdump.capabilities.shards.strategy",
}

SENTENCES = "pytest_msdump.capabilities.shards.text:SENTENCES"
