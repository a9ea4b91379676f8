"""Which operator started it: roles of failing operators, and how much each makes an error grow."""
