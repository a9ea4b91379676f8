"""The capability `run_origins`."""
