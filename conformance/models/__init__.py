"""Models: built operator by operator, graphs of a few, real ones and what they are fed."""
