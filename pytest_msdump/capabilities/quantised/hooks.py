"""Runs in 8 bits and fewer against floats: which float tensor a dequantised one stands for, and what rounding adds."""

AFTER = ("causes",)

STAGES = {
    "named": "pytest_msdump.capabilities.quantised.pairing:pair_dequantised",
    "reported": ("pytest_msdump.capabilities.quantised.blame:with_quantised", "network"),
    "summarised": ("pytest_msdump.capabilities.quantised.blame:SummarisedQuantised", "notable"),
}

REPORT_PART = "pytest_msdump.capabilities.quantised.blame:Ordered"

# The diagnosis that is said in place of a reason.
TOGETHER = ("quantised",)

# Why a tensor is kept from other ways of pairing.
WITHHELD = ("quant_output", "dequantised_weight", "before_rounding", "before_quantising")

SENTENCES = "pytest_msdump.capabilities.quantised.text:SENTENCES"
