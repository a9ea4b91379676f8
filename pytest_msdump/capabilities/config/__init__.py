"""Checks, explains and makes dump configurations: ``data_dump.json`` and ``acl.json``."""
