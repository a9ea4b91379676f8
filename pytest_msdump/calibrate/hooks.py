"""What calibration offers to drivers: limits of a file that a run lowers."""

OFFERS = {"calibration": "pytest_msdump.calibrate.engine"}
