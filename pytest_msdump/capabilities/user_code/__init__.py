"""The capability `user_code`."""
