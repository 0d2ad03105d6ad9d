"""The job runner: one process a running job. Rows -> prompts -> engines -> answers -> graders -> samples file."""
