"""How answers are graded: one grader a file, each named and versioned."""
