"""The catalogue's page in the documentation, and `rwkvctl benchmarks show`."""
