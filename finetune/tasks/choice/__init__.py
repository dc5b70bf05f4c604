"""Multiple choice: choosing one of several answers or continuations of a text."""
