"""From graded samples to a score, with its statistics."""
