"""What this capability adds."""

NEEDS = ("arrays", "ascend", "statistics")

COMMANDS = {
    "overflow": ("pytest_msdump.capabilities.overflow.command", "find operators that overflow in one dump", "replay"),
}

AFTER = ("graphs",)
STAGES = {"indexed": "pytest_msdump.capabilities.overflow.indexing:with_overflows"}

SENTENCES = "pytest_msdump.capabilities.overflow.text:SENTENCES"
