"""Objective, optimisation, stages, run directories."""
