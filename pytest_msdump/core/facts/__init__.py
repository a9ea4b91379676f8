"""What vendors and the field decided, as literal tables with their source. No functions but look-ups, no I/O."""
