"""Keeps plans and their weights between processes, in files of the user."""
