"""Training data from measured samples: what a recipe says (`recipe_file`), which samples it takes (`taking`, over the
rules of `selection`), cleaning, and files."""
