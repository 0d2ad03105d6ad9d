"""Where raw rows come from. Each source gives pairs of (where the row stands, raw row); benchmarks convert them."""
