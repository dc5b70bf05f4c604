"""Property tests: whatever comes in, a right result or one clear error.

`make test` tries the same few thousand inputs every time. `FUZZ=20 pytest tests/fuzz` tries
twenty times as many, other ones each time.
"""
