"""Limits that a reference and slightly perturbed runs of it give, and those of a file that a run lowers."""

NEEDS = ("run_origins",)

COMMANDS = {
    "calibrate": (
        "pytest_msdump.capabilities.calibrate.command",
        "make limits from a reference and slightly perturbed runs of it",
        "accept",
    ),
}

OFFERS = {
    "calibration": "pytest_msdump.capabilities.calibrate.engine",
    "limits_file": "pytest_msdump.capabilities.calibrate.limits_file",
}

SENTENCES = "pytest_msdump.capabilities.calibrate.text:SENTENCES"
