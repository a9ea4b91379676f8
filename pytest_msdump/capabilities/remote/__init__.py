"""Dumps on object storage: what stands for a file that is elsewhere, and how its bytes are fetched."""
