"""What is computed fast: a few functions, compiled ones where there are any."""
