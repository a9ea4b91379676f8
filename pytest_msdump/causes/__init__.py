"""Where a drift comes from: which operator started it, how much each makes it grow, and what a tensor's looks like."""
