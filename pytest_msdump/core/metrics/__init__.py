"""Arrays in, numbers out: knows no dumps, no pytest, no logging, and has no opinion."""
