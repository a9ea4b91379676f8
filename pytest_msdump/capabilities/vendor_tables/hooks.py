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

COMPARE_OPTIONS = {
    "table": {
        "flags": ("-o", "--table"),
        "group": "output",
        "metavar": "PATH",
        "help": "also write the vendor's table of nine columns: to a file when PATH ends in .txt or .csv, "
        "else to result.txt in that folder; compares inputs as well, unless --io says otherwise; "
        "with -d the folder for its files",
        "after": "scheduler",
    },
    "table_csv": {
        "flags": ("-csv", "--table-csv"),
        "group": "output",
        "action": "store_true",
        "help": "write that table as CSV",
        "after": "table",
    },
}
