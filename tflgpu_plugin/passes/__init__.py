"""Rewrites of an island's graph before lowering, a file each; `order` lists and runs them. Who
needs one only imports no others: a start from what was kept runs none.
"""
