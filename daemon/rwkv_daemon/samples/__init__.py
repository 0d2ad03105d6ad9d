"""Reading samples of very large jobs: in windows, by an index, for as long as it takes."""
