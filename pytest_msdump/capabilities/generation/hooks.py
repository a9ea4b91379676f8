"""Keys of a rule for logits and for what was chosen from them, and what these are judged by."""

NEEDS = ("calibrate", "programs", "record", "shards", "tokens")

COMMANDS = {
    "generation": (
        "pytest_msdump.capabilities.generation.command",
        "let two decoders continue the same prompts, and judge what they say",
        "repeat",
    ),
}

RULE_KEYS = {"logits": "flag", "ties": "text", "routes": "flag or text"}

OFFERS = {
    "generation": "pytest_msdump.capabilities.generation.prompts",
    "choices": "pytest_msdump.capabilities.generation.choices",
}

REMARKS = "pytest_msdump.capabilities.generation.text:REMARKS"

SENTENCES = "pytest_msdump.capabilities.generation.text:SENTENCES"

STAGES = {
    "ruled": ("pytest_msdump.capabilities.generation.choices:with_chosen_from", "ties"),
    "measured": [
        ("pytest_msdump.capabilities.generation.logits:with_softmax", "logits"),
        ("pytest_msdump.capabilities.generation.ties:with_routes", "routes"),
    ],
    "excused": [
        ("pytest_msdump.capabilities.generation.ties:ties_message", "ties"),
        ("pytest_msdump.capabilities.generation.ties:aside_message", "ties"),
    ],
    "judged": ("pytest_msdump.capabilities.generation.said:with_first_wrong", "failing"),
    "reported": [
        ("pytest_msdump.capabilities.generation.choices:with_entries", "network"),
        ("pytest_msdump.capabilities.generation.said:with_all_said", "network"),
    ],
}

REPORT_PART = "pytest_msdump.capabilities.generation.said:AllSaid"
SECTION = "pytest_msdump.capabilities.generation.said:section"
