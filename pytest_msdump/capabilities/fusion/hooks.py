"""Pairing by rule files: what each operator of a compiled graph was in the original model."""

WAYS = {"fusion": {"pairs": "pytest_msdump.capabilities.fusion.fused:pair_by_rules", "after": "file"}}

OFFERS = {"rule_files": "pytest_msdump.capabilities.fusion.fused"}
