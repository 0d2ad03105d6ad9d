"""Raw rows of one shape that several sets share, turned into prepared rows."""
