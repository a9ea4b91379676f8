"""What this capability adds."""

OFFERS = {"table": "pytest_msdump.capabilities.vendor_tables.table"}

REPORTS = {
    "csv": {
        "class": "pytest_msdump.capabilities.vendor_tables.table:CsvReport",
        "file": "ops.csv",
        "begins": "Index,OpType,NPUDump,",
        "after": "json",
    },
}
