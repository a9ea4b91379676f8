"""The capability `protobuf`."""
