"""Training data from measured samples. Here: cleaning. What selects, pairs and writes comes beside it."""
