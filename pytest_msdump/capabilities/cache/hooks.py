"""What this capability adds."""

OFFERS = {"cache": "pytest_msdump.capabilities.cache.cache"}

OPTIONS = {
    "cache": {
        "group": "running",
        "kind": "choice",
        "metavar": "HOW",
        "help": "reuse comparisons of earlier runs: off, by size and time of files, or by their content",
        "default": "off",
        "value": "off",
        "choices": ("off", "files", "content"),
        "after": "jobs",
    },
}
