"""Models, each with its reference and hand-written ports of it."""
