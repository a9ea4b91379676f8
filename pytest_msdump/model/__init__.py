"""Values of shards and statistics; move with those capabilities."""
