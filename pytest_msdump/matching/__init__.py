"""Pairing by structure; moves with that capability."""
