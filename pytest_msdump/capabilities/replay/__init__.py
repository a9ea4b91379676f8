"""A reference replayed with the inputs of the left; what lies in `replay` moves here."""
