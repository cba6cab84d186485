"""The pytest plugin of the suite: which tests run, what is kept of each, and what was expected."""
