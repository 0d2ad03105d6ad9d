"""What a benchmark is: rows, kinds, prompts, settings, graders."""
