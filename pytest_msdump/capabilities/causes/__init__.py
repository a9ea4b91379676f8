"""Which operator started it; what lies in `causes` moves here."""
