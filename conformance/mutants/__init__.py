"""Our own roles with one wrong line each: what the suite must notice. How they are written: `registry.py`."""
