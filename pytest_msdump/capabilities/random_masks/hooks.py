"""What is asked of a failing pair: whether both sides drew masks."""

STAGES = {"excused": "pytest_msdump.capabilities.random_masks.masks:masks_message"}
