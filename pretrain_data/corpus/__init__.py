"""Raw text: finding files, reading them, and dividing them among processes."""
