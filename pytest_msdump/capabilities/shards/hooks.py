"""What shards add to a pair: copies that ranks hold of one tensor have to be equal."""

AFTER = ("statistics",)
STAGES = {"judged": ("pytest_msdump.comparison.sharding:with_copies_judged", "shards")}
