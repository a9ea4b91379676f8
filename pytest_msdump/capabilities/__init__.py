"""Everything that is added to the core; each folder can be deleted, and the rest still gates."""
