"""Dumps from live models of frameworks other than PyTorch, and the one object that records all."""

NEEDS = ("graphs", "record")

COMMANDS = {
    "tfdbg": (
        "pytest_msdump.capabilities.frameworks.tf_graphs",
        "print tfdbg commands that save every tensor of its list",
        "report",
    ),
}

# What fixtures give to tests.
OFFERS = {"recorder": "pytest_msdump.capabilities.frameworks.recorder"}
