"""The values that walk through the house: frozen, plain, without I/O. All can be printed, compared and pickled."""
