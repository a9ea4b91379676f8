"""The capability `training`."""
