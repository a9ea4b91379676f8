"""What is said of a failing pair: what its drift looks like."""

NEEDS = ("statistics",)

STAGES = {"explained": "pytest_msdump.capabilities.diagnosis.diagnose:with_diagnosis"}

SENTENCES = "pytest_msdump.capabilities.diagnosis.text:SENTENCES"
