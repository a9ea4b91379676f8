"""What a release changes: which operators, since when, and whether it matters."""

NEEDS = ("causes", "frameworks", "graphs", "kernels", "programs", "record", "replay")

COMMANDS = {
    "upgrade": (
        "pytest_msdump.capabilities.upgrade.command",
        "run a program in two environments, and say which operators the upgrade changes, and whether it matters",
        "repeat",
    ),
}

SENTENCES = "pytest_msdump.capabilities.upgrade.text:SENTENCES"
