"""The vendor's command lines as they are, run by this package: ``python -m pytest_msdump.compat.compare_vector …``."""
