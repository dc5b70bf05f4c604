"""Tasks that give each word of a sentence a tag, or find the spans that the tags mark."""
