"""Grids of systems, and the paper's tables from them."""
