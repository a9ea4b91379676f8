"""Files that hold several tensors: PyTorch's, NumPy's archives, safetensors."""

READERS = {
    "npz": ("pytest_msdump.capabilities.tensor_files.npz:NpzReader", 0, (".npz",)),
    "safetensors": ("pytest_msdump.capabilities.tensor_files.safetensors:SafetensorsReader", 0, (".safetensors",)),
    "torch-file": (
        "pytest_msdump.capabilities.tensor_files.torch_file:TorchFileReader",
        0,
        (".pt", ".pth", ".bin", ".ckpt"),
    ),
    "tensor-folder": (
        "pytest_msdump.capabilities.tensor_files.folder:TensorFolderReader",
        -2,
        (".pt", ".pth", ".bin", ".ckpt", ".npz", ".safetensors", ".pb", ".tensorproto"),
    ),
    "npy-tree": ("pytest_msdump.capabilities.tensor_files.folder:NpyTreeReader", -3, (".npy",)),
}
