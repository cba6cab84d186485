"""Passes that move, merge and drop transposes and other changes of layout."""
