"""Keys of a rule for logits and for what was chosen from them, and what these are judged by."""

NEEDS = ("calibrate", "programs", "record", "shards")

COMMANDS = {
    "generation": (
        "pytest_msdump.capabilities.generation.command",
        "let two decoders continue the same prompts, and judge what they say",
        "repeat",
    ),
}

RULE_KEYS = {"logits": "flag", "ties": "text", "routes": "flag"}

OFFERS = {
    "generation": "pytest_msdump.capabilities.generation.prompts",
    "choices": "pytest_msdump.capabilities.generation.choices",
}

REMARKS = "pytest_msdump.capabilities.generation.text:REMARKS"

SENTENCES = "pytest_msdump.capabilities.generation.text:SENTENCES"

STAGES = {
    "ruled": ("pytest_msdump.capabilities.generation.choices:with_chosen_from", "ties"),
    "measured": ("pytest_msdump.capabilities.generation.logits:with_softmax", "logits"),
    "excused": [
        ("pytest_msdump.capabilities.generation.ties:ties_message", "ties"),
        ("pytest_msdump.capabilities.generation.ties:aside_message", "ties"),
    ],
    "reported": ("pytest_msdump.capabilities.generation.choices:with_entries", "network"),
}
