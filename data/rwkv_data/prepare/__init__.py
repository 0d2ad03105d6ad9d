"""From a source to prepared rows."""
