"""Passes that rewrite a partition's graph before lowering, one per file; `pipeline` lists and runs
them. Importing one does not import the others, and loading a stored plan imports none."""
