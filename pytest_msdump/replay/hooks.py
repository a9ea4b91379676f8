"""What a replay offers: the reference as it was named on a command line, and partners that fit what it makes."""

OFFERS = {"reference": "pytest_msdump.replay.reference_model", "suggestions": "pytest_msdump.replay.pairing"}
