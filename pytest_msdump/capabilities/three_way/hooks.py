"""What a golden and a third run add to a pair: the errors of both runs against golden, measured or estimated."""

OPTIONS = {
    "golden": {
        "group": "inputs",
        "kind": "path",
        "metavar": "DIR",
        "help": "dump of a more exact run of the reference, in float64 or on CPU: the left may err so many times as "
        "the right",
        "after": "right",
    },
    "third": {
        "group": "inputs",
        "kind": "path",
        "metavar": "DIR",
        "help": "dump of another run of the reference: it is measured in the place of the right side, against golden, "
        "else against the right side",
        "after": "golden",
    },
}

STAGES = {
    "paired": ("pytest_msdump.capabilities.three_way.judging:with_runs", "golden"),
    "measured": ("pytest_msdump.capabilities.three_way.judging:with_ratios", "golden"),
    "estimated": ("pytest_msdump.capabilities.three_way.judging:golden_interval", "golden"),
}
