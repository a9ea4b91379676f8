"""Rows of the core, as those of a capability: its readers, its reports, and the commands that no capability has yet."""

# Reader → its class, its precedence, and how names of its files end, in lower case; none where any name may be one.
READERS = {
    "mindspore": ("pytest_msdump.core.dumps.mindspore:MindSporeReader", 10, ()),
    "npy-file": ("pytest_msdump.core.dumps.npy:NpyFileReader", 0, (".npy", ".bin")),
    "npy-folder": ("pytest_msdump.core.dumps.npy_folder:NpyFolderReader", 0, ()),
}

# Ways of pairing, in this order: what one pairs or withholds is not offered to a later one. That of a capability may
# name the one `after` which it comes: {"pairs": "module:name", "after": "file"}.
WAYS = {
    "map": "pytest_msdump.core.matching.mapped:pair_by_map",
    "file": "pytest_msdump.core.matching.pairer:pair_two_files",
    "name": "pytest_msdump.core.matching.names:pair_by_name",
    "mangled": "pytest_msdump.core.matching.names:pair_by_mangled_name",
}

REPORTS = {
    "json": {
        "class": "pytest_msdump.core.report.json_report:JsonReport",
        "file": "results.json",
        "begins": '{\n"schema_version": ',
    },
}

COMMANDS = {
    "compare": ("pytest_msdump.cli.compare", "compare two dumps or two tensor files", "init"),
    "check": ("pytest_msdump.cli.check", "judge a saved result again, without the data", "inspect"),
    "accept": (
        "pytest_msdump.cli.accept",
        "accept failures of a run until a day, as known drifts of its suite file",
        "check",
    ),
    "report": ("pytest_msdump.cli.report", "write the page, or another report, from a saved result", "rename"),
}
