"""Folders of .npy files and trees of MindSpore; what every reader shares."""
