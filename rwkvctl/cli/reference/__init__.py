"""The manual page and docs/json.md, made of the verbs and message types."""
