"""What this capability adds."""

COMMANDS = {
    "config": (
        "pytest_msdump.capabilities.config.command",
        "write, check or explain a dump configuration",
        "overflow",
    ),
}
