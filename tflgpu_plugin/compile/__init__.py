"""From the graph of a partition to a Plan: pure data, no device needed."""
