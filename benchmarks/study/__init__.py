"""The paper's comparisons at a size that two cores train in two hours; see `__main__`."""
