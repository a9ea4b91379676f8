"""Two results of one suite: what became better, what became worse, and what can no longer be compared."""
