"""Outside harnesses: programs of others that measure a model through an engine's OpenAI routes."""
