"""From a host's graph to ours: reading, evaluation, support, rules and partitions."""
