"""What this capability adds."""

NEEDS = ("graphs",)

OFFERS = {"configurations": "pytest_msdump.capabilities.config.command"}

COMMANDS = {
    "config": (
        "pytest_msdump.capabilities.config.command",
        "write, check or explain a dump configuration",
        "overflow",
    ),
}

SENTENCES = "pytest_msdump.capabilities.config.text:SENTENCES"
