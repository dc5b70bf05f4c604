"""The page of branch coverage: figures of `make coverage`, and why the rest is not covered."""
