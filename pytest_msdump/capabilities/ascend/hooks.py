"""Dump files of Ascend devices, raw, in slices, or as the vendor's tools converted them."""

NEEDS = ("protobuf",)

READERS = {
    "ascend": ("pytest_msdump.capabilities.ascend.reader:AscendReader", 12, ()),
    "converted": ("pytest_msdump.capabilities.ascend.reader:ConvertedReader", 11, (".npy", ".bin", ".csv")),
    "proto-folder": ("pytest_msdump.capabilities.ascend.reader:ProtoFolderReader", 1, (".pb", ".quant")),
}

# Dump files of a device that lie beside arrays of MindSpore.
BESIDE = {"mindspore": "pytest_msdump.capabilities.ascend.reader:index_headers"}
