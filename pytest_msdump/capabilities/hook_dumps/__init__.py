"""The capability `hook_dumps`."""
