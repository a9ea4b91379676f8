"""Overflow records of a device, and what they say of a dump."""
