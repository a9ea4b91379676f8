"""Whether the operator that is called a cause is where the mistake is, on models with one line changed."""
