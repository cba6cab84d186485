"""Evaluates graphs in numpy and checks that no pass changes an answer.

`evaluate` runs a graph in float64, before or after any pass. `passes.check` runs all passes over a
graph and evaluates it around each one that changed something. `python -m conformance.evaluation`
does so for every graph there is (docs/passes.md)."""
