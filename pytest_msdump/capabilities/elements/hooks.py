"""What this capability adds."""

NEEDS = ("arrays", "vendor_tables")

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

COMPARE_OPTIONS = {
    "detail_operator": {
        "flags": ("-d", "--operator"),
        "group": "one operator, element by element",
        "metavar": "OP",
        "help": "compare one operator (OP, or OP:output:0) and write its tensors element by element, "
        "to the folder of -o, else to detail in the report directory",
        "after": "user_code",
    },
    "detail_io": {
        "flags": ("-t", "--tensor"),
        "group": "one operator, element by element",
        "choices": ("input", "output"),
        "help": "with -d: input or output (default)",
        "after": "detail_operator",
    },
    "detail_slot": {
        "flags": ("-i", "--index"),
        "group": "one operator, element by element",
        "metavar": "K",
        "help": "with -d: its number (default: all)",
        "after": "detail_io",
    },
    "detail_top": {
        "flags": ("--top",),
        "group": "one operator, element by element",
        "metavar": "N",
        "help": "with -d: list the N largest errors (default: 20)",
        "after": "detail_slot",
    },
    "detail_rows": {
        "flags": ("--rows",),
        "group": "one operator, element by element",
        "metavar": "N",
        "help": "with -d: elements in a file, 0 for none (default: 1000000)",
        "after": "detail_top",
    },
}
