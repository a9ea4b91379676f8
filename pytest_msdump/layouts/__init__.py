"""Views of shards and of tokens; move with those capabilities."""
