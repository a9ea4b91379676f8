"""What inference runtimes save: ONNX's test data, results of Polygraphy, bytes without a header."""

NEEDS = ("protobuf", "tensor_files")

READERS = {
    "onnx-tensor": (
        "pytest_msdump.capabilities.runtime_files.onnx_tensor:OnnxTensorReader",
        0,
        (".pb", ".tensorproto"),
    ),
    "polygraphy": ("pytest_msdump.capabilities.runtime_files.polygraphy:PolygraphyReader", 1, (".json",)),
    "raw": ("pytest_msdump.capabilities.runtime_files.raw:RawReader", -4, (".raw", ".bin")),
}

OFFERS = {"raw_files": "pytest_msdump.capabilities.runtime_files.raw"}

STAGES = {"paired": ("pytest_msdump.capabilities.runtime_files.raw:with_shapes", "raw")}

SENTENCES = "pytest_msdump.capabilities.runtime_files.text:SENTENCES"
