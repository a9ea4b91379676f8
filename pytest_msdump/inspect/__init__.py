"""What can be said of one dump without a reference: signs of trouble in its tensors, one by one and over iterations."""
