"""Text to token ids: vocabulary, tokenizer, framing. Imports `electra_tf.util` only."""
