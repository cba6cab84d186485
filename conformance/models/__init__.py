"""Models for tests: built operator by operator, graphs of a few operators, and real ones with their
inputs."""
