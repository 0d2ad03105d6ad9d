"""Labels of prepared rows: values that were found later, such as a difficulty, by which `where` picks as by fields."""
