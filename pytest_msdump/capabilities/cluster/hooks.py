"""What this capability adds."""

NEEDS = ("cache",)

OFFERS = {"scheduler": "pytest_msdump.capabilities.cluster.cluster"}

COMPARE_OPTIONS = {
    "scheduler": {
        "flags": ("--scheduler",),
        "group": "running",
        "metavar": "ADDRESS",
        "help": "compare on the workers of a Dask cluster that see the same files: tcp://HOST:PORT, or a scheduler "
        "file",
    },
}
