"""A web page over exported models: a sentence, and what the models say of its tokens."""
