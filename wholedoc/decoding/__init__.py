"""Search for the best translation under a model."""
