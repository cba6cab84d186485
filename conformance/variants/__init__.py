"""The cases and models over other types: float16, values stored as float16, 8 bits."""
