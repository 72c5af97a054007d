"""Translation memories: what people have translated, on disk, to be found again by likeness."""
