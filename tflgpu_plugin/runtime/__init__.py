"""Runs plans: adapters and devices, programs (pipelines and weights), instances."""
