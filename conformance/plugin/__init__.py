"""The pytest plugin of the suite: it selects tests, records their results, and compares them with
expectations."""
