"""Text and numbers as people and programs read them: foreign text made safe, quantities, tables, progress."""
