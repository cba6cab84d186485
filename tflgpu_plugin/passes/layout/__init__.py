"""Passes that move transposes and other changes of layout, or drop them."""
