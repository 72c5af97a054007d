"""What users touch: the translator and the tour."""
