"""Dumps on object storage."""

STORAGES = {"url": "pytest_msdump.capabilities.remote.listings:listings"}
