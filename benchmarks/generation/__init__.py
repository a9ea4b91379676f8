"""Whether two decoders are called the same where they are, and other ones where one line is wrong."""

import sys

# No model here has images; transformers fails where a torchvision of another release is installed.
sys.modules.setdefault("torchvision", None)  # type: ignore[arg-type]
