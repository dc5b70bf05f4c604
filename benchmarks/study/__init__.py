"""ELECTRA, BERT and the paper's ablations at equal compute; see `__main__`."""
