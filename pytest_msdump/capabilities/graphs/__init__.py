"""What the files of a run say of its network."""
