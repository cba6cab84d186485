"""Runs models in hosts, for commands, the demo, benchmarks and tests: runners, writers of model
files, inputs, comparisons."""
