"""What the files beside a dump of MindSpore say of the run: version, device, dump configuration, history."""
