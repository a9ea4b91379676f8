"""What PyTorch's DebugMode writes: calls with their hashes."""

NEEDS = ("msprobe",)

READERS = {"debug-mode": ("pytest_msdump.capabilities.debug_mode.reader:DebugModeReader", 0, (".json",))}
