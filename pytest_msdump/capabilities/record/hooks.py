"""Dumps of live models of every framework, and of arrays in hand: whole, or as sketches."""

NEEDS = ("arrays", "graphs", "statistics")

COMMANDS = {
    "sketch": (
        "pytest_msdump.capabilities.record.sketch_command",
        "write a dump as sketches, small enough to commit",
        "convert",
    ),
    "tfdbg": (
        "pytest_msdump.capabilities.record.tf_graphs",
        "print tfdbg commands that save every tensor of its list",
        "report",
    ),
}

# What fixtures give to tests.
OFFERS = {
    "recorder": "pytest_msdump.capabilities.record.recorder",
    "references": "pytest_msdump.capabilities.record.reference",
    "variations": "pytest_msdump.capabilities.record.variation",
}
