"""What is wrong with a pair that fails: codes with their parameters."""
