"""Multiple choice: the right one of several answers or continuations of a text."""
