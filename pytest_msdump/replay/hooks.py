"""What a replay offers: the reference as it was named on a command line."""

OFFERS = {"reference": "pytest_msdump.replay.reference_model"}
