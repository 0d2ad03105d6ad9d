"""One file a benchmark: its name is the file's, its value is `BENCHMARK`. A new file is a new benchmark."""
