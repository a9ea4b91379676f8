"""Tensors of which only statistics were saved: their tables, a road of their own, and digests."""

OFFERS = {"statistics": "pytest_msdump.capabilities.statistics.limits"}

READERS = {"statistics": ("pytest_msdump.capabilities.statistics.reader:StatisticsReader", -1, (".csv",))}

STAGES = {
    # A folder of a reference is no run: a table in it is not about its tensors.
    "indexed": ("pytest_msdump.capabilities.statistics.reader:with_statistics", "mindspore", "ascend", "converted"),
    "road": ("pytest_msdump.capabilities.statistics.compare:compare_by_statistics", "unseen"),
    # Elements may contradict them.
    "judged": ("pytest_msdump.capabilities.statistics.limits:with_digests_checked", "statistics"),
}

SENTENCES = "pytest_msdump.capabilities.statistics.text:SENTENCES"
