"""Protobuf's wire format, which several formats are made of; no row of its own."""
