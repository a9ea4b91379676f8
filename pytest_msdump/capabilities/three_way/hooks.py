"""What a golden and a third run add to a pair: the errors of both runs against golden, measured or estimated."""

STAGES = {
    "measured": ("pytest_msdump.capabilities.three_way.judging:with_ratios", "golden"),
    "estimated": ("pytest_msdump.capabilities.three_way.judging:golden_interval", "golden"),
}
