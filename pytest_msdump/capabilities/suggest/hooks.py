"""Suites that are written for two dumps: partners that structure proposes and values confirm."""

NEEDS = ("structure",)

COMMANDS = {
    "init": ("pytest_msdump.capabilities.suggest.init", "write a first suite file for two dumps"),
    "match": ("pytest_msdump.capabilities.suggest.match", "show which tensors pair, and why others do not", "compare"),
}

SENTENCES = "pytest_msdump.capabilities.suggest.text:SENTENCES"
