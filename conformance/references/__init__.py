"""The right answers: meanings in numpy, judges in float64 and in integers."""
