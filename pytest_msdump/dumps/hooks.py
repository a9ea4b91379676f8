"""Dump formats of others, and what a run leaves beside its tensors: statistics and graphs."""

READERS = {
    "ascend": ("pytest_msdump.dumps.ascend:AscendReader", 12, ()),
    "converted": ("pytest_msdump.dumps.converted:ConvertedReader", 11, (".npy", ".bin", ".csv")),
    "debug-mode": ("pytest_msdump.dumps.debug_mode:DebugModeReader", 0, (".json",)),
    "sglang-dumper": ("pytest_msdump.dumps.hook_dumps:SglangDumperReader", 1, (".pt",)),
    "forward-passes": ("pytest_msdump.dumps.hook_dumps:ForwardPassReader", 1, (".pt",)),
    "debug-tree": ("pytest_msdump.dumps.hook_dumps:DebugTreeReader", 1, (".json",)),
    "msprobe": ("pytest_msdump.dumps.msprobe:MsprobeReader", 2, (".json", ".npy", ".pt")),
    "npz": ("pytest_msdump.dumps.npz:NpzReader", 0, (".npz",)),
    "proto-folder": ("pytest_msdump.dumps.converted:ProtoFolderReader", 1, (".pb", ".quant")),
    "safetensors": ("pytest_msdump.dumps.safetensors:SafetensorsReader", 0, (".safetensors",)),
    "statistics": ("pytest_msdump.dumps.statistics:StatisticsReader", -1, (".csv",)),
    "torch-file": ("pytest_msdump.dumps.torch_file:TorchFileReader", 0, (".pt", ".pth")),
}

# Dump files of a device that lie beside arrays of MindSpore.
BESIDE = {"mindspore": "pytest_msdump.dumps.ascend:index_headers"}

STAGES = {
    "indexed": [
        # A folder of a reference is no run: a table in it is not about its tensors.
        ("pytest_msdump.dumps.statistics:with_statistics", "mindspore", "ascend", "converted"),
        "pytest_msdump.dumps.graphs.execution_order:with_graphs",
    ]
}

# What reads the graph of a compiled model, what gives a dump its order, and what knows the arguments of operators.
GRAPHS = {
    "model": "pytest_msdump.dumps.graphs.ge_model:read_model",
    "order": "pytest_msdump.dumps.graphs.execution_order:with_order_of",
    "arguments": "pytest_msdump.comparison.graph_operators:ArgumentBook",
    "differences": "pytest_msdump.comparison.graph_operators:arguments_of_pair",
}

# Prefix of what is selected → what replaces it by names of operators.
SELECTORS = {"line:": "pytest_msdump.comparison.graph_operators:with_line_names"}
