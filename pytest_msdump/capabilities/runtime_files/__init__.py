"""The capability `runtime_files`."""
