"""One dump alone: its contents, checks without a reference, overflow, and single files."""
