"""The capability `tensor_files`."""
