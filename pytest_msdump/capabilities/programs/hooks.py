"""Programs that dump: they are run, once or several times, and what they left is opened."""

NEEDS = ("causes", "frameworks", "record", "statistics")

COMMANDS = {
    "repeat": (
        "pytest_msdump.capabilities.programs.repeat_command",
        "run a program several times, and find the first operator that differs",
        "sketch",
    ),
}

OFFERS = {
    "programs": "pytest_msdump.capabilities.programs.program",
    "repeats": "pytest_msdump.capabilities.programs.repeats",
}

SENTENCES = "pytest_msdump.capabilities.programs.text:SENTENCES"
