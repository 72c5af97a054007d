"""How results are shown: pages and charts."""
