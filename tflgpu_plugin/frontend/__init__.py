"""Code that the callbacks of every host share: records of claims, reports, messages."""
