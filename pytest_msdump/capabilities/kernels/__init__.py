"""The capability `kernels`."""
