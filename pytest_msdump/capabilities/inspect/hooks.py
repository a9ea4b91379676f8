"""What this capability adds."""

NEEDS = ("ascend", "convert", "graphs", "overflow", "statistics")

OFFERS = {"check": "pytest_msdump.capabilities.inspect.assertion"}

COMMANDS = {
    "inspect": (
        "pytest_msdump.capabilities.inspect.command",
        "look into one dump or file, from a line of the program to its operators and back, and check it by itself",
        "match",
    ),
}

SENTENCES = "pytest_msdump.capabilities.inspect.text:SENTENCES"
