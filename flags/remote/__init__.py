"""Remote paths in flags (`gs://…`): which flags accept them, and local copies."""
