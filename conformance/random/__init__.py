"""Graphs and operators by chance, from seeds."""
