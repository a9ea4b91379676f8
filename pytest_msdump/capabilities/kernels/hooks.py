"""Each operator of a dump is computed again by the definition of its type; `replay` has the command."""

NEEDS = ("graphs",)

SENTENCES = "pytest_msdump.capabilities.kernels.text:SENTENCES"
