"""What this capability adds."""

REPORTS = {
    "csv": {
        "class": "pytest_msdump.capabilities.vendor_tables.table:CsvReport",
        "file": "ops.csv",
        "begins": "Index,OpType,NPUDump,",
        "after": "json",
    },
}
