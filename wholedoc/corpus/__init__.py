"""From text files to numbered batches: documents, readers, vocabularies, the artificial corpus."""
