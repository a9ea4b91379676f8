"""Runs in 8 bits and fewer against floats: which float tensor a dequantised one stands for, and what rounding adds."""

STAGES = {"named": "pytest_msdump.capabilities.quantised.pairing:pair_dequantised"}

# Why a tensor is kept from other ways of pairing.
WITHHELD = ("quant_output", "dequantised_weight", "before_rounding", "before_quantising")

SENTENCES = "pytest_msdump.capabilities.quantised.text:SENTENCES"
