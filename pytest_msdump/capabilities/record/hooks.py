"""Dumps of live models of every framework, and of arrays in hand: whole, or as sketches."""

NEEDS = ("arrays", "graphs", "statistics")

COMMANDS = {
    "sketch": (
        "pytest_msdump.capabilities.record.sketch_command",
        "write a dump as sketches, small enough to commit",
        "convert",
    ),
}

# What fixtures give to tests.
OFFERS = {
    "references": "pytest_msdump.capabilities.record.reference",
    "variations": "pytest_msdump.capabilities.record.variation",
}
