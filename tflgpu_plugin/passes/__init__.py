"""Rewrites of a partition's graph before lowering, a file each; `pipeline` lists and runs them. Who
needs one only imports no others: a start from what was kept runs none.
"""
