"""What this capability adds: command lines of its own, ``python -m pytest_msdump.compat.…``, and no row."""

NEEDS = ("arrays", "ascend", "convert", "elements", "graphs", "overflow", "user_code", "vendor_tables")
