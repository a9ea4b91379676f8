"""What every benchmark needs: whole processes and what they took, medians and ratios, tables."""
