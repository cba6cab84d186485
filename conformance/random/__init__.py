"""Random graphs and operators, each made from a seed."""
