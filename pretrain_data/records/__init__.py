"""TFRecords of examples: format, manifest, and batches that can be resumed."""
