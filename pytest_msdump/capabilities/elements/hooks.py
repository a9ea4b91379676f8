"""What this capability adds."""

NEEDS = ("vendor_tables",)

OFFERS = {
    "details": "pytest_msdump.capabilities.elements.write_pair",
    "details_of_an_operator": "pytest_msdump.capabilities.elements.command",
}

OPTIONS = {
    "detail": {
        "group": "output",
        "kind": "count",
        "metavar": "N",
        "help": "write the first N failing tensors element by element; without N the first 5",
        "default": "none",
        "value": 0,
        "after": "report_dir",
    },
}
