"""For tests, ours and yours: make small dumps, and check that a reader keeps the laws."""
