"""What this capability adds."""

NEEDS = ("arrays", "ascend", "frameworks", "graphs", "msprobe", "overflow", "record", "statistics")

COMMANDS = {
    "convert": (
        "pytest_msdump.capabilities.convert.command",
        "convert dumps to arrays, archives, raw bytes or text, and arrays to dump files",
        "calibrate",
    ),
    "prototxt": (
        "pytest_msdump.capabilities.convert.prototxt_command",
        "give in-place layers of a Caffe network their own blobs",
        "config",
    ),
    "rename": (
        "pytest_msdump.capabilities.convert.renaming",
        "rename .npy files to OP.SLOT.TIME.npy",
        "prototxt",
    ),
}

SENTENCES = "pytest_msdump.capabilities.convert.text:SENTENCES"
