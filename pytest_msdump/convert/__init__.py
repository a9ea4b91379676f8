"""Files brought from one form to another: networks without in-place layers, folders with names of the grammar."""
