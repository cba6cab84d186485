"""Passes that replace several nodes by one."""
