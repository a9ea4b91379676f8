"""What this capability adds."""

NEEDS = ("cache",)

OFFERS = {"scheduler": "pytest_msdump.capabilities.cluster.cluster"}
