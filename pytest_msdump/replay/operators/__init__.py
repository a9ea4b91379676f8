"""What operators compute, by type: rows of tables here, entry points ``pytest_msdump.operators`` elsewhere."""
