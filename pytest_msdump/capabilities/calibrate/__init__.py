"""The capability `calibrate`."""
