"""Mutation tests: changes of the product that its tests must notice."""
