"""``msdump port``: records a model in two frameworks on the same inputs, and compares the two."""

NEEDS = ("frameworks", "programs", "suggest", "weights")

COMMANDS = {
    "port": (
        "pytest_msdump.capabilities.port.command",
        "run a model in two frameworks on the same inputs, and compare them",
        "init",
    ),
}

SENTENCES = "pytest_msdump.capabilities.port.text:SENTENCES"
