"""Where raw rows come from: files, the Hugging Face hub, the web. Each gives a `raw.Raw`; benchmarks convert it."""
