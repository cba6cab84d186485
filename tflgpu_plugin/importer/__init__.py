"""Imports a host's graph: reading, evaluation, support, rules and partitions."""
