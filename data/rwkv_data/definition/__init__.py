"""The definition of benchmarks: rows, kinds, prompts, settings, graders."""
