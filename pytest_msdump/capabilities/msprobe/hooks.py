"""Dumps of msprobe: tensors, and statistics alone."""

NEEDS = ("tensor_files",)

READERS = {"msprobe": ("pytest_msdump.capabilities.msprobe.reader:MsprobeReader", 2, (".json", ".npy", ".pt"))}
