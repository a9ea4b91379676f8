"""What every comparison passes through: it knows no capability."""
