"""Records of pairs that did not change since the last run."""
