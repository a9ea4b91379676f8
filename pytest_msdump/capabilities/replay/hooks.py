"""Each operator is given its own inputs again: by the model of the reference, or by definitions of kernels."""

NEEDS = ("frameworks", "kernels", "programs", "record", "suggest")

COMMANDS = {
    "replay": (
        "pytest_msdump.capabilities.replay.command",
        "give each operator its own inputs again, and name the kernels or modules that are wrong by themselves",
        "repeat",
    ),
}

# The reference as it was named on a command line, and partners that fit what it makes.
OFFERS = {
    "reference": "pytest_msdump.capabilities.replay.reference_model",
    "suggestions": "pytest_msdump.capabilities.replay.pairing",
}

SENTENCES = "pytest_msdump.capabilities.replay.text:SENTENCES"
