"""Tables of capabilities that have no folder yet."""
