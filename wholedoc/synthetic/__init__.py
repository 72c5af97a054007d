"""The artificial corpus."""
