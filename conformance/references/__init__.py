"""The expected results: meanings of ops in numpy, and judges in float64 and in integers."""
