"""In which order and by whom pairs are measured: threads, other machines, earlier runs."""
