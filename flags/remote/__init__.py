"""Remote paths of flags (`gs://…`): what they may name, and copies of it on this machine."""
