"""What files seem to be that no reader knows, and what makes a dump of them."""

OFFERS = {"foreign_files": "pytest_msdump.capabilities.foreign_files.seeming"}
