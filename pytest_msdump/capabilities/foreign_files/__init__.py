"""The capability `foreign_files`."""
