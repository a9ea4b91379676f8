"""What pairs get that may be zero in exact arithmetic: the terms of their sums, and the question whether they are."""

STAGES = {
    "paired": "pytest_msdump.capabilities.noise_floor.limits:with_terms",
    "excused": "pytest_msdump.capabilities.noise_floor.limits:rounding_alone",
}
