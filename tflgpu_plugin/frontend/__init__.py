"""From a host's nodes to claims: support, partition, and what is kept of claims."""
