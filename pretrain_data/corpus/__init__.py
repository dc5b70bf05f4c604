"""Raw text: found, read and divided among processes."""
