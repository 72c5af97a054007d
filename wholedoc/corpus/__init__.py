"""From text files to batches of token ids: documents, readers, filters, vocabularies."""
