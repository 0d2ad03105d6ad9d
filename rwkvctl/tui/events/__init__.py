"""Events on the console: rows and wording."""
