"""What every package uses: errors, files, the console, a quiet TensorFlow.

Imports nothing of ours."""
