"""pytest-msdump: the accuracy gate for model migration."""
