"""Pseudo-log-likelihoods of texts, and the re-ranking of n-best lists by them."""
