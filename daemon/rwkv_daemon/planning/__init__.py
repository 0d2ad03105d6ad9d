"""From a dispatch to jobs: the plan, its cost, and its ETA."""
