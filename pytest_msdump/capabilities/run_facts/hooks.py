"""Facts of a run of MindSpore: for folders of its tensors, of their statistics, and empty ones, not for references."""

NEEDS = ("graphs",)

AFTER = ("overflow", "statistics")
STAGES = {
    "indexed": (
        "pytest_msdump.capabilities.run_facts.indexing:with_run",
        "mindspore",
        "ascend",
        "converted",
        "statistics",
        "empty",
    )
}
