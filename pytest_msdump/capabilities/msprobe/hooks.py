"""Dumps of msprobe: tensors, and statistics alone."""

NEEDS = ("tensor_files",)

# The vendor's file that a suite names as its map.
OFFERS = {"layer_mapping": "pytest_msdump.capabilities.msprobe.layers"}

READERS = {"msprobe": ("pytest_msdump.capabilities.msprobe.reader:MsprobeReader", 2, (".json", ".npy", ".pt"))}
