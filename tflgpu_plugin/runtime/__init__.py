"""From a Plan to something that runs: adapters and devices, programs (pipelines and weights),
instances.
"""
