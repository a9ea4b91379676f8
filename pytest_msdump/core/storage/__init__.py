"""Files that are written whole, and listings of folders."""
