"""Files of scores that others have measured: what `rwkvctl baseline add` reads."""
