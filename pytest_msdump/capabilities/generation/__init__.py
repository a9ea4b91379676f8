"""What a language model says: distances of logits, ties of what was chosen from them."""
