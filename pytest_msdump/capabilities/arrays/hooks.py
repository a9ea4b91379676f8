"""Writing tensors into files of arrays, which several commands do; no row of its own."""
