"""Stages of shards, tokens, statistics and graphs; move with those capabilities."""
