"""What a run's own files say of its network."""
