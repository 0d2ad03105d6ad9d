"""The catalogue's page in the documentation, and `rwkvctl data show`."""
