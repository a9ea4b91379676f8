"""One mistake behind all that fails in training: of the loss, of what becomes of gradients, of the optimizer."""

STAGES = {"together": "pytest_msdump.capabilities.training.one_mistake:with_one_mistake"}

# Diagnoses that say what the one mistake is.
TOGETHER = (
    "loss_scaled",
    "loss_differs",
    "passes_differ",
    "gradients_clipped",
    "gradients_kept",
    "statistics_momentum",
    "optimizer_differs",
)

SENTENCES = "pytest_msdump.capabilities.training.text:SENTENCES"
