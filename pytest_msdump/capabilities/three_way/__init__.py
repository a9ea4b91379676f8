"""A third, more exact run that says which side is wrong."""
