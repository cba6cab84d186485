"""Passes over quantized tensors."""
