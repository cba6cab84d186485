"""What answers have to be: meanings in numpy, judges in float64 and in whole numbers."""
