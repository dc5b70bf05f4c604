"""Pseudo-log-likelihoods of texts, and re-ranking of n-best lists."""
