"""Where and in which order pairs are measured: threads, other machines, earlier runs."""
