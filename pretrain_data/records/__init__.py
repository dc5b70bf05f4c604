"""TFRecords of examples: format, manifest, validation and resumable batches."""
