"""Other programs for the same function: expressions as terms, rewrites of known accuracy, saturation, extraction."""
