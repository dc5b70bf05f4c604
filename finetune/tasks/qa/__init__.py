"""Question answering: the answer is a span of the context, or the question has none."""
