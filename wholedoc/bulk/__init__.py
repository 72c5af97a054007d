"""Very large collections, translated by many workers: each document exactly once."""
