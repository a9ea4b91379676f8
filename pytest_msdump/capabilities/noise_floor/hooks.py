"""What is asked of a failing pair: whether it is zero in exact arithmetic."""

STAGES = {
    "paired": ("pytest_msdump.capabilities.noise_floor.limits:with_terms", "several"),
    "excused": "pytest_msdump.capabilities.noise_floor.limits:rounding_alone",
}
