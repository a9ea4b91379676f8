"""What started a failure, printed; moves with causes."""
