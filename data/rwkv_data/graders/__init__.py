"""The graders of answers: one grader in each file, named and versioned."""
