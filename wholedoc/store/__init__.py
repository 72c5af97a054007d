"""What a model is on disk."""
