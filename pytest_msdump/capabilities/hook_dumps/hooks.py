"""Folders that hooks of serving engines and of debuggers write."""

NEEDS = ("tensor_files",)

READERS = {
    "sglang-dumper": ("pytest_msdump.capabilities.hook_dumps.reader:SglangDumperReader", 1, (".pt",)),
    "forward-passes": ("pytest_msdump.capabilities.hook_dumps.reader:ForwardPassReader", 1, (".pt",)),
    "debug-tree": ("pytest_msdump.capabilities.hook_dumps.reader:DebugTreeReader", 1, (".json",)),
}
