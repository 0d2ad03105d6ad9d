"""Two runs side by side: paired samples, flips, differences of scores."""
