"""What this capability adds: each operator gets its own inputs again; and partners that fit what it then makes."""

OFFERS = {"replay": "pytest_msdump.replay.reference_model", "suggestions": "pytest_msdump.replay.pairing"}
