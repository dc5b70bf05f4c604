"""Remote paths in flags (`gs://…`): which flags may have them, and local copies."""
