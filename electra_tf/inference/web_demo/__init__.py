"""A web page for exported models: replaced tokens, alternatives and task predictions."""
