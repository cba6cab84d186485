"""Compiles a partition's graph to a Plan: pure data, made without a device."""
