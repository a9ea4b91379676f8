"""What pairs without elements add: a road of their own, and digests that elements may contradict."""

STAGES = {
    "road": ("pytest_msdump.capabilities.statistics.compare:compare_by_statistics", "unseen"),
    "judged": ("pytest_msdump.limits.statistics:with_digests_checked", "statistics"),
}
