"""Other forms of files: arrays from dumps and back, memory formats, names of the grammar, Caffe networks."""
